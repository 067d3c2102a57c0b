package config

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// checkComponents reports what is wrong between components that are fine alone.
func (b *builder) checkComponents() {
	b.checkUnused()
	b.checkClaims()
	b.checkLoops()
	b.checkTimeouts()
	if b.spec.Checkpoint.Storage == "memory:" && b.exactly() {
		b.put(Warning, b.at("checkpoint.storage"), "checkpoint.storage", "checkpoint.memory", "checkpoints in memory are gone when the process ends", "use file: for anything but tests")
	}
}

// checkClaims refuses two components that would take each other's outside names.
func (b *builder) checkClaims() {
	type key struct{ kind, name string }
	first := map[key]*Component{}
	for _, c := range b.components {
		for _, cl := range c.parts.Claims {
			k := key{cl.Kind, cl.Name}
			if o := first[k]; o != nil && o != c {
				c.Problem(cl.Path, "graph.claimed", fmt.Sprintf("the %s %s is used by %s, too", cl.Kind, quote(cl.Name), o.node.path), "give one of the two another one")
				continue
			}
			first[k] = c
		}
	}
}

// checkLoops warns when a pipeline reads what it writes.
func (b *builder) checkLoops() {
	for _, sink := range b.components {
		for _, w := range sink.parts.Writes {
			for _, src := range b.components {
				if slices.Contains(src.parts.Reads, w) {
					sink.Warn("", "graph.loop", fmt.Sprintf("it writes to %s, which %s reads: the pipeline may feed itself for ever", w.Name, src.node.path), "write to another one, unless the records are told apart")
				}
			}
		}
	}
}

// checkTimeouts refuses transactions that an outage of usual length would lose
// (Policy.DrainFor), and keeps the shortest outage for I9.
func (b *builder) checkTimeouts() {
	p := &b.result.Policy
	if !b.exactly() || b.reported("checkpoint.interval") || b.reported("checkpoint.timeout") || b.reported("checkpoint.min_pause") {
		return
	}
	for _, c := range b.components {
		if c.parts.Sink == nil || c.parts.Sink.Features.Timeout == 0 || c.parts.Sink.NewCommitter == nil {
			continue
		}
		drain, err := p.DrainFor(c.parts.Sink.Features.Timeout)
		var e *stream.Error
		if errors.As(err, &e) {
			e.Subject = "transaction timeout " + Duration(c.parts.Sink.Features.Timeout).String()
			c.Reject(c.parts.TimeoutKey, e)
			continue
		}
		p.Drain = shortest(p.Drain, drain)
	}
}

func shortest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// transactional reports whether a component's output is committed.
func (c *Component) transactional(m checkpoint.Mode) bool {
	return c.parts.Sink != nil && c.parts.Sink.NewCommitter != nil && m == checkpoint.ExactlyOnce
}
