// Package configtest is what the tests of the components of a pipeline file share: stories,
// which are files with what the loader says of them.
package configtest

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/config"
	"etl/stream"
)

// Stories are pipeline files, each with the problems that the loader finds, and the plan of
// what it accepts.
type Stories struct {
	Loader *config.Loader
	// Secret is what none of it may show; "" for nothing.
	Secret string
	// Dir is the folder that the files call $DIR; "" for none.
	Dir string

	prefix string
}

// Run runs the stories of files of package datadriven. The command "prefix" says how all
// later pipeline files begin.
func (s *Stories) Run(t *testing.T, files ...string) {
	for _, file := range files {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "prefix" {
				s.prefix = d.Input + "\n"
				return ""
			}
			text := s.prefix + d.Input + "\n"
			if s.Dir == "" {
				return s.load(t, text)
			}
			return strings.ReplaceAll(s.load(t, strings.ReplaceAll(text, "$DIR", s.Dir)), s.Dir, "$DIR")
		})
	}
}

func (s *Stories) load(t *testing.T, text string) string {
	job, ps := s.Loader.Load("p.yaml", []byte(text))
	var b strings.Builder
	if err := ps.Render(&b, config.Style{}); err != nil {
		t.Fatal(err)
	}
	if job != nil {
		if err := job.Plan(nil, time.Time{}).Render(&b, config.Style{}); err != nil {
			t.Fatal(err)
		}
		s.hides(t, "the effective file", string(job.Effective()))
	}
	s.hides(t, "the answer", b.String())
	return b.String()
}

func (s *Stories) hides(t *testing.T, what, text string) {
	if s.Secret != "" && strings.Contains(text, s.Secret) {
		t.Errorf("%s shows a password:\n%s", what, text)
	}
}

// Device gives each folder below the root a device of its own.
func Device(path string) (uint64, bool) { return stream.Hash([]byte(path[:4])), true }
