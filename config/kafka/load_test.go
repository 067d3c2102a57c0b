package kafka_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/config"
)

// TestFiles runs the stories in testdata: what the loader says of Kafka's keys.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ca.pem": "not a certificate", "key.pem": "no key", "cert.pem": "no certificate"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prefix := ""
	datadriven.RunTest(t, "testdata/load", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "prefix" {
			prefix = d.Input + "\n"
			return ""
		}
		text := strings.ReplaceAll(prefix+d.Input+"\n", "$DIR", dir)
		job, ps := loader().Load("p.yaml", []byte(text))
		var b strings.Builder
		if err := ps.Render(&b, config.Style{}); err != nil {
			t.Fatal(err)
		}
		if job != nil {
			if err := job.Plan(nil, time.Time{}).Render(&b, config.Style{}); err != nil {
				t.Fatal(err)
			}
		}
		return strings.ReplaceAll(b.String(), dir, "$DIR")
	})
}
