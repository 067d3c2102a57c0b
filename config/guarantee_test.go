package config

import (
	"strings"
	"testing"

	"etl/checkpoint"
)

func TestGuarantee(t *testing.T) {
	uncommitted := Limit{AtLeastOnce, "sources.in.isolation: read_uncommitted", "aborted records are read"}
	atLeast := Limit{AtLeastOnce, "sinks.out.delivery: at_least_once", "rows are written before the checkpoint"}
	for _, tc := range []struct {
		name  string
		route route
		want  string
	}{
		{"all is well", route{mode: checkpoint.ExactlyOnce, storage: "file", transactional: true, delivery: "two_phase"},
			"in -> out: exactly once (two_phase, visible every 10s)"},
		{"the sink is weaker", route{mode: checkpoint.ExactlyOnce, storage: "file", limits: []Limit{atLeast}, delivery: "at_least_once"},
			"in -> out: at least once (at_least_once); weakest link: sinks.out.delivery: at_least_once"},
		{"the first of equally weak links is named", route{mode: checkpoint.ExactlyOnce, storage: "file", limits: []Limit{uncommitted, atLeast}, delivery: "at_least_once"},
			"in -> out: at least once (at_least_once); weakest link: sources.in.isolation: read_uncommitted"},
		{"the mode is weaker", route{mode: checkpoint.AtLeastOnce, storage: "file", limits: []Limit{atLeast}, delivery: "at_least_once"},
			"in -> out: at least once (at_least_once); weakest link: checkpoint.mode: at_least_once"},
		{"no checkpoints at all", route{mode: checkpoint.None, storage: "file", limits: []Limit{atLeast}, delivery: "at_least_once"},
			"in -> out: at most once (at_least_once); weakest link: checkpoint.mode: none"},
		{"storage does not outlive the process", route{mode: checkpoint.ExactlyOnce, storage: "memory", transactional: true, delivery: "two_phase"},
			"in -> out: no guarantee (two_phase, visible every 10s); weakest link: checkpoint.storage: memory:"},
		{"memory under at_least_once", route{mode: checkpoint.AtLeastOnce, storage: "memory", limits: []Limit{atLeast}, delivery: "at_least_once"},
			"in -> out: no guarantee (at_least_once); weakest link: checkpoint.storage: memory:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.route.parts, tc.route.interval = []string{"in", "out"}, Duration(10e9)
			if got := tc.route.guarantee().String(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestGuaranteeNotes(t *testing.T) {
	r := route{mode: checkpoint.AtLeastOnce, storage: "file", parts: []string{"in", "draw", "out"}, skips: []string{"in"},
		random: map[string]string{"draw": "it reads the clock"}}
	got := strings.Join(r.guarantee().Notes, "\n")
	want := "in skips and counts records that it cannot process (on_error: skip)\ndraw may give other output in a replay: it reads the clock"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.mode, r.said = checkpoint.ExactlyOnce, []string{"read it so"}
	if got := strings.Join(r.guarantee().Notes, "\n"); strings.Contains(got, "replay") || !strings.HasSuffix(got, "\nread it so") {
		t.Errorf("exactly once: %s", got)
	}
}
