package config

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzLoad demands of any text: no panic, an answer, places inside the file; and of
// a text that is accepted that its effective form is accepted too and says the same.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(secretFile))
	for _, name := range seeds(f) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(b), "\n----\n") {
			f.Add([]byte(part[strings.IndexByte(part, '\n')+1:]))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		job, ps := secretLoader().Load("p.yaml", data)
		if (job == nil) != ps.Failed() {
			t.Fatalf("job %v, problems %v", job, ps)
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, p := range ps {
			if p.Line > lines || p.Column < 0 || p.Message == "" || p.Code == "" {
				t.Fatalf("%+v in %d lines", p, lines)
			}
		}
		if err := ps.Render(io.Discard, Style{Color: true}); err != nil {
			t.Fatal(err)
		}
		if job == nil {
			return
		}
		if err := job.Plan(nil, time.Time{}).Render(io.Discard, Style{}); err != nil {
			t.Fatal(err)
		}
		text := job.Effective()
		again, ps := secretLoader().Load("effective.yaml", text)
		if again == nil {
			t.Fatalf("the effective configuration is refused: %v\n%s", ps, text)
		}
		if !bytes.Equal(again.Effective(), text) {
			t.Fatalf("the effective configuration of\n%s\nis\n%s", text, again.Effective())
		}
	})
}

func seeds(f *testing.F) []string {
	names, err := filepath.Glob("testdata/load/*")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds", err)
	}
	return names
}

func FuzzDurationsAndSizes(f *testing.F) {
	for _, s := range []string{"10s", "1d12h", "90d", "1.5d", "-5s", "0", "10", "1h30m", "106751d", "64MiB", "10MB", "1.5GiB", "512B", "9223372036854775807B", "1e400TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("%q is %v, which reads as %v, %v", s, d, again, err)
			}
		}
		if n, err := ParseSize(s); err == nil {
			if again, err := ParseSize(n.String()); n < 0 || err != nil || again != n {
				t.Errorf("%q is %v, which reads as %v, %v", s, n, again, err)
			}
		}
	})
}
