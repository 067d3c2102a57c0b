package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/config"
	"etl/config/kafka"
	"etl/config/postgres"
	"etl/stream"
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
		Device: func(path string) (uint64, bool) { return stream.Hash([]byte(path[:4])), true },
	}}
}

// TestFiles runs the stories in testdata: what the loader says of the keys of
// PostgreSQL, and the plans of what it accepts.
func TestFiles(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSSLMODE", "PGSERVICE", "PGPASSFILE"} {
		t.Setenv(name, "")
	}
	prefix := ""
	story := func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "prefix" {
			prefix = d.Input + "\n"
			return ""
		}
		job, ps := loader().Load("p.yaml", []byte(prefix+d.Input+"\n"))
		var b strings.Builder
		if err := ps.Render(&b, config.Style{}); err != nil {
			t.Fatal(err)
		}
		if job != nil {
			if err := job.Plan(nil, time.Time{}).Render(&b, config.Style{}); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(job.Effective()), "topsecret") {
				t.Errorf("the effective file shows a password:\n%s", job.Effective())
			}
		}
		if strings.Contains(b.String(), "topsecret") {
			t.Errorf("a password is shown:\n%s", b.String())
		}
		return b.String()
	}
	for _, file := range []string{"testdata/load", "testdata/idempotent"} {
		datadriven.RunTest(t, file, story)
	}
}
