package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/config"
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
	prefix := ""
	datadriven.RunTest(t, "testdata/load", func(t *testing.T, d *datadriven.TestData) string {
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
	})
}
