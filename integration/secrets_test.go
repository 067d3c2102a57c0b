package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etl/internal/kafkatest"
)

// Secrets, and what records hold, are nowhere but on the wire: not in what commands
// print, not in logs, not in metrics, not in any file of the job. With an error it is
// the same: TestWrongPassword, TestPoisonEndsTheJob.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	b := strict(t)
	j, in, out := securedJob(t, b)
	grant(t, b, rights(j, in, out)...)
	j.write(strings.Replace(strings.Replace(secured, `"${PASSWORD}"`, `"${file:`+j.dir+`.secret}"`, 1), "format: json", "format: json, level: debug", 1))
	if err := os.WriteFile(j.dir+".secret", []byte(kafkatest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	canary := "canary-payload-5518"
	produce(t, b, in, values(0, canary, "b")...)
	r := j.start().running()
	j.caughtUp()
	all := j.must("status").All
	_, page := r.get("/metrics")
	_, ready := r.get("/readyz")
	j.must("stop")
	r.ends(0)
	for _, words := range []string{"lint", "plan", "verify", "checkpoints ls", "checkpoints inspect", "checkpoints verify"} {
		all += j.must(words).All
	}
	all += page + ready + r.log(100000)
	err := filepath.WalkDir(j.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others: %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		all += string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{kafkatest.Password, canary} {
		if i := strings.Index(all, secret); i >= 0 {
			t.Errorf("%q is shown: ...%s...", secret, all[max(0, i-200):min(len(all), i+50)])
		}
	}
	exactly(t, b, out, canary, "b")
}
