package postgres

import (
	"os"
	"testing"

	"etl/internal/pgtest"
	"etl/sink/sinktest"
)

// TestConformance runs the suite of all sinks, for each guard, on a server that it may kill.
func TestConformance(t *testing.T) {
	// Only processes are killed here, and what a process has written outlives it: syncing
	// would take most of the time and prove nothing.
	// Histories leave their connections until the last one has ended.
	d := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"fsync": "off", "max_connections": "500"}})
	runs, places := 3, 3
	if os.Getenv("ETL_SLOW") != "" {
		runs, places = 100, 60
	}
	for name, shape := range guards {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Runs: runs, Places: places, New: func(t testing.TB) *sinktest.Harness {
				h := newLab(t, d, shape).harness()
				h.Kill, h.Restart = d.Server.Kill, d.Server.Restart
				return h
			}})
		})
	}
}
