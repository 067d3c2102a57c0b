package sinktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"etl/sink"
	"etl/stream"
)

// kind is a way to make a sink.
type kind string

const (
	// appending prepares a transaction for each epoch; each row counts.
	appending kind = "appending"
	// reducing keeps the last row of a key, has one epoch in flight, and prepares the
	// rows of an aborted one again with the next.
	reducing kind = "reducing"
	// logging keeps rows in the checkpoint and applies them after the permit.
	logging kind = "logging"
	// upserting writes at once, the last row of a key; it commits nothing.
	upserting kind = "upserting"
)

const memTimeout = 20 * time.Minute

func (k kind) features() sink.Features {
	f := sink.Features{Transactional: true, Marker: true, NeedsKey: true}
	switch k {
	case appending:
		f.AppendOnly, f.Ordered, f.Timeout = true, true, memTimeout
	case reducing:
		f.Upsert, f.OneInFlight = true, true
	case logging:
		f.AppendOnly, f.Ordered, f.Deferred = true, true, true
	case upserting:
		f = sink.Features{Upsert: true, NeedsKey: true, Guarded: true}
	}
	return f
}

// memory is a sink in memory, with one rule broken, or none.
type memory struct {
	kind  kind
	fault flawed
	srv   *server
	p     Process
}

func (m *memory) NewWriter() sink.Writer { return &memWriter{m: m, moved: make(chan struct{})} }

func (m *memory) NewCommitter() sink.Committer {
	if m.kind == upserting {
		return nil
	}
	return &memCommitter{m: m}
}

func (m *memory) Features() sink.Features { return m.kind.features() }

// do is a request to the server. A broken connection ends the attempt.
func (m *memory) do(op func() error) error {
	err := m.p.Do(op)
	if errors.Is(err, errCut) || errors.Is(err, errDead) {
		return stream.Errorf(stream.Restart, "mem.connection", "ask the server", "", "%w", err)
	}
	return err
}

// is reports whether the rule is broken.
func (m *memory) is(f flawed) bool { return m.fault == f }

// harness is an outside in memory.
func harness(k kind, f flawed) *Harness {
	clock := stream.SystemWorld(nil).Clock
	srv := newServer(clock)
	h := &Harness{
		Connect: func(p Process) sink.Connector { return &memory{kind: k, fault: f, srv: srv, p: p} },
		Read:    func(context.Context) ([]Row, error) { return srv.read(k.features().Upsert), nil },
		InDoubt: func(context.Context) (names []string, err error) {
			for _, n := range srv.list(func(n txnName) bool { return n.job == "job" }) {
				names = append(names, n.String())
			}
			return names, nil
		},
		BadAtWrite:  func(_ *stream.Batch, r *stream.Record) { r.Value = []byte("bad at write") },
		BadInFinish: func(_ *stream.Batch, r *stream.Record) { r.Value = []byte("bad in finish") },
		Advance:     func(d time.Duration) { _ = clock.Sleep(context.Background(), d) },
		Kill: func(context.Context) error {
			if f == preparedVolatile { // otherwise everything is durable
				srv.abort(func(txnName) bool { return true })
			}
			return nil
		},
		Restart: func(context.Context) error { return nil },
	}
	return h
}

func suiteOf(k kind, f flawed) Suite {
	return Suite{New: func(testing.TB) *Harness { return harness(k, f) }, Virtual: true}
}

var (
	errBadAtWrite  = errors.New("bad at write")
	errBadInFinish = errors.New("bad in finish")
)

// parse reads a row off a record.
func (m *memory) parse(r *stream.Record) (row Row, err error) {
	if r.Key == nil && !m.is(keylessWritten) {
		return row, errors.New("there is no key")
	}
	row.Key = string(r.Key)
	switch string(r.Value) {
	case "bad at write":
		return row, errBadAtWrite
	case "bad in finish":
		row.N = -1
		return row, nil
	}
	_, err = fmt.Sscan(string(r.Value), &row.N)
	return row, err
}
