package http_test

import (
	"testing"

	"etl/config"
	"etl/config/configtest"
	"etl/config/http"
	"etl/config/kafka"
)

// TestFiles runs the stories in testdata: what the loader says of the keys of an
// http sink, and the plans of what it accepts.
func TestFiles(t *testing.T) {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	http.Register(r)
	s := configtest.Stories{Secret: "canary", Loader: &config.Loader{Registry: r, DataDir: "/data", Outside: config.Outside{
		LookupEnv: func(name string) (string, bool) { return "canary", name == "KAFKA_PASSWORD" },
		Device:    configtest.Device,
	}}}
	s.Run(t, "testdata/load")
}
