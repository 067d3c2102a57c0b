package config

import (
	"context"
	"strings"
	"testing"

	"etl/stream"
)

// TestProbeTellsOnce: that a server cannot be asked is told once, of its connection,
// whoever finds out and however often; nobody else asks it. What a server answers is told
// of each component.
func TestProbeTellsOnce(t *testing.T) {
	for _, code := range []string{"kafka.unreachable", "kafka.sasl", "postgres.authentication", "postgres.database", "redis.auth", "kafka.acl"} {
		job := planJob(t, "")
		asked := 0
		fails := func(c *Component) error {
			asked++
			return stream.Errorf(stream.Retry, code, "ask", "topic of "+c.Name, "no").WithFix("mend it")
		}
		for _, c := range job.Components {
			if c.Section == Transforms {
				continue
			}
			c.parts.Preflight = func(context.Context, stream.World) (Facts, error) {
				return Facts{Found: []Found{{Path: "topic", Err: fails(c)}, {Err: fails(c)}}}, nil
			}
			c.parts.Probe = func(context.Context, stream.World) []Found { return []Found{{Err: fails(c)}, {Err: fails(c)}} }
		}
		ps := job.Probe(t.Context(), stream.World{})
		if code == "kafka.acl" {
			if len(ps) < 4 || asked != 8 {
				t.Errorf("%s: asked %d times:\n%v", code, asked, ps)
			}
			continue
		}
		if len(ps) != 1 || ps[0].Path != "connections.main" || asked != 2 || ps[0].Fix != "mend it" || strings.Contains(ps[0].Message, "topic of") {
			t.Errorf("%s: asked %d times:\n%v", code, asked, ps)
		}
		if again := job.Probe(t.Context(), stream.World{}); len(again) != 1 {
			t.Errorf("%s, once more:\n%v", code, again)
		}
		if stream.ClassOf(ps.Err()) != stream.Environment {
			t.Errorf("%s: %v", code, stream.ClassOf(ps.Err()))
		}
	}
}

// TestProbeWarns: a finding that stops nothing is a warning with its own code and fix, at
// a start as well.
func TestProbeWarns(t *testing.T) {
	job := planJob(t, "")
	out := job.Components[len(job.Components)-1]
	warning := Found{Path: "topic", Warning: true, Err: stream.Errorf(stream.Environment, "kafka.unreachable", "look", "server", "it may forget").WithFix("mend it")}
	out.parts.Preflight = func(context.Context, stream.World) (Facts, error) { return Facts{Found: []Found{warning}}, nil }
	out.parts.Probe = func(context.Context, stream.World) []Found { return []Found{warning} }
	for _, ps := range []Problems{job.Preflight(t.Context(), stream.World{}), job.Probe(t.Context(), stream.World{})} {
		if len(ps) != 1 || ps.Failed() || ps[0].Code != "kafka.unreachable" || ps[0].Message != "it may forget" || ps[0].Fix != "mend it" || !strings.HasPrefix(ps[0].Path, "sinks.") {
			t.Errorf("%+v", ps)
		}
	}
}
