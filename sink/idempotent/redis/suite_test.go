package redis

import (
	"os"
	"strings"
	"testing"

	"etl/internal/redistest"
	"etl/sink/sinktest"
	"etl/stream"
)

// TestConformance runs the suite of all sinks, for each kind of value.
func TestConformance(t *testing.T) {
	s := redistest.Shared(t)
	runs, places := 3, 3
	if os.Getenv("ETL_SLOW") != "" {
		runs, places = 100, 60
	}
	for name, shape := range kinds {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Runs: runs, Places: places, New: func(t testing.TB) *sinktest.Harness {
				l := newLab(t, s, shape)
				h := l.harness()
				if l.cfg.Kind == Counter {
					h.BadAtWrite = func(b *stream.Batch, r *stream.Record) { r.Value = b.Copy([]byte("x" + string(r.Value))) }
				}
				return h
			}})
		})
	}
}
