package postgres_test

import (
	"testing"

	"etl/config"
	"etl/config/configtest"
	"etl/config/kafka"
	"etl/config/postgres"
)

func loader() *config.Loader {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	postgres.Register(r, postgres.Options{})
	return &config.Loader{Registry: r, DataDir: "/data", Outside: config.Outside{
		LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{"PG_DSN": "postgres://etl:topsecret@db.internal:5433/shop", "PG_PASSWORD": "topsecret"}[name]
			return v, ok
		},
		Device: configtest.Device,
	}}
}

// TestFiles runs the stories in testdata: what the loader says of the keys of
// PostgreSQL, and the plans of what it accepts.
func TestFiles(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSSLMODE", "PGSERVICE", "PGPASSFILE"} {
		t.Setenv(name, "")
	}
	s := configtest.Stories{Loader: loader(), Secret: "topsecret"}
	s.Run(t, "testdata/load", "testdata/idempotent")
}
