package kafka_test

import (
	"os"
	"path/filepath"
	"testing"

	"etl/config/configtest"
)

// TestFiles runs the stories in testdata: what the loader says of Kafka's keys.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ca.pem": "not a certificate", "key.pem": "no key", "cert.pem": "no certificate"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := configtest.Stories{Loader: loader(), Dir: dir}
	s.Run(t, "testdata/load")
}
