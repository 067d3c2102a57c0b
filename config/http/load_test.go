package http_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/config"
	"etl/config/http"
	"etl/config/kafka"
	"etl/stream"
)

// TestFiles runs the stories in testdata: what the loader says of the keys of an
// http sink, and the plans of what it accepts.
func TestFiles(t *testing.T) {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	http.Register(r)
	loader := &config.Loader{Registry: r, DataDir: "/data", Outside: config.Outside{
		LookupEnv: func(name string) (string, bool) { return "canary", name == "KAFKA_PASSWORD" },
		Device:    func(path string) (uint64, bool) { return stream.Hash([]byte(path[:4])), true },
	}}
	prefix := ""
	datadriven.RunTest(t, "testdata/load", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "prefix" {
			prefix = d.Input + "\n"
			return ""
		}
		job, ps := loader.Load("p.yaml", []byte(prefix+d.Input+"\n"))
		var b strings.Builder
		if err := ps.Render(&b, config.Style{}); err != nil {
			t.Fatal(err)
		}
		if job != nil {
			if err := job.Plan(nil, time.Time{}).Render(&b, config.Style{}); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	})
}
