package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"etl/stream"
)

// actions are what becomes of records that cannot be processed.
var actions = []string{"fail", "skip", "dead_letter"}

// observeRejects publishes the records of a subtask that could not be processed. There
// always is a series of each action: one that begins with its first record would hide
// that record from every rate.
func (t *Telemetry) observeRejects(ob metric.Observer, o *observed, n counts, kv []attribute.KeyValue) {
	observe := func(k stream.Reject) {
		ob.ObserveInt64(o.errors, n.rejects[k], t.metrics.attrs(append(slices.Clone(kv), attribute.String("action", k.Action), attribute.String("code", k.Code))...))
	}
	for _, a := range actions {
		observe(stream.Reject{Action: a, Code: stream.CodeRejected})
	}
	for k := range n.rejects {
		if k.Code != stream.CodeRejected {
			observe(k)
		}
	}
}

// observeLetters adds dead letters up over subtasks. The lock is held.
func (t *Telemetry) observeLetters(ob metric.Observer, o *observed) {
	type series struct {
		uid  stream.UID
		code string
	}
	letters := map[series]int64{}
	for id, x := range t.tasks {
		letters[series{id.UID, stream.CodeRejected}] += 0
		for k, n := range x.counts().rejects {
			if k.Action == "dead_letter" {
				letters[series{id.UID, k.Code}] += n
			}
		}
	}
	for s, n := range letters {
		ob.ObserveInt64(o.letters, n, t.metrics.attrs(attribute.String("component", string(s.uid)), attribute.String("code", s.code)))
	}
}
