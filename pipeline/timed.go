package pipeline

import (
	"context"

	"etl/state"
	"etl/stream"
)

// sampleEvery is how many look-ups in keyed state go by for one that is timed: reading
// the clock would cost a good part of what it measures.
const sampleEvery = 1024

// timed is keyed state that tells the listener how long it takes, now and then: a
// look-up, and the first change of its first key. It allocates nothing.
type timed struct {
	state.Keyed
	env    *stream.Env
	n      uint32
	change change
}

// newTimed returns s itself when nobody listens.
func newTimed(s state.Keyed, env *stream.Env) state.Keyed {
	if env.Listener == nil || env.Listener.State == nil {
		return s
	}
	return &timed{Keyed: s, env: env}
}

// Batch implements state.Keyed.
func (t *timed) Batch(ctx context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	t.n++
	if t.n%sampleEvery != 1 || len(keys) == 0 {
		return t.Keyed.Batch(ctx, keys, hashes, refs)
	}
	begin := t.env.Clock.Now()
	if err := t.Keyed.Batch(ctx, keys, hashes, refs); err != nil {
		return err
	}
	t.env.Listener.OnState(stream.StateEvent{Task: t.env.Task(), Op: "read", Took: t.env.Clock.Now().Sub(begin)})
	t.change = change{Entry: refs[0].E, env: t.env}
	refs[0].E = &t.change
	return nil
}

// change is an entry whose first change is timed.
type change struct {
	state.Entry
	env  *stream.Env
	told bool
}

// Mutable implements state.Entry.
func (c *change) Mutable(at uint64, n int) []byte {
	if c.told {
		return c.Entry.Mutable(at, n)
	}
	begin := c.env.Clock.Now()
	v := c.Entry.Mutable(at, n)
	took := c.env.Clock.Now().Sub(begin)
	c.told = true
	c.env.Listener.OnState(stream.StateEvent{Task: c.env.Task(), Op: "write", Took: took})
	return v
}
