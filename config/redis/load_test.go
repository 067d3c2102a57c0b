package redis_test

import (
	"testing"

	"etl/config"
	"etl/config/configtest"
	"etl/config/kafka"
	"etl/config/redis"
)

func loader() *config.Loader {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	redis.Register(r)
	return &config.Loader{Registry: r, DataDir: "/data", Outside: config.Outside{
		LookupEnv: func(name string) (string, bool) { return "topsecret", name == "REDIS_PASSWORD" },
	}}
}

// TestFiles runs the stories in testdata: what the loader says of the keys of Redis, and
// the plans of what it accepts.
func TestFiles(t *testing.T) {
	s := configtest.Stories{Loader: loader(), Secret: "topsecret"}
	s.Run(t, "testdata/load")
}
