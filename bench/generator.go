package main

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"etl/checkpoint"
	"etl/source"
	"etl/stream"
)

// generator is a source that touches every key once and then random ones at a
// rate, for a time.
type generator struct {
	keys, rate int
	measure    time.Duration
}

// filled says that every key has been touched, steady that some time has passed
// since.
var filled, steady atomic.Bool

func (g generator) NewEnumerator() source.Enumerator { return generatorEnumerator{} }
func (g generator) NewReader() source.Reader         { return &generatorReader{generator: g} }
func (g generator) Bounded() bool                    { return true }

type generatorEnumerator struct{}

func (generatorEnumerator) Open(context.Context, stream.Env) error { return nil }
func (generatorEnumerator) Discover(_ context.Context, known []stream.Split) ([]stream.Split, error) {
	if len(known) > 0 {
		return nil, nil
	}
	return []stream.Split{{Topic: "gen", End: 1 << 62}}, nil
}
func (generatorEnumerator) Report(context.Context, checkpoint.Permit, []stream.Split) error {
	return nil
}
func (generatorEnumerator) Close() error { return nil }

const generatorBatch = 512

type generatorReader struct {
	generator
	env    source.Env
	split  stream.Split
	wake   chan struct{}
	r      *rand.Rand
	next   int
	begun  time.Time
	sent   int
	closed bool
}

func (g *generatorReader) Open(_ context.Context, env source.Env, splits []stream.Split) error {
	g.env, g.split, g.wake, g.r = env, splits[0], make(chan struct{}, 1), rand.New(rand.NewPCG(7, 7))
	return nil
}

func (g *generatorReader) Assign([]stream.Split) error { return nil }

func (g *generatorReader) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *generatorReader) Poll(ctx context.Context) (stream.Element, error) {
	if g.next < g.keys {
		return g.batch(func() int { g.next++; return g.next - 1 }, min(generatorBatch, g.keys-g.next)), nil
	}
	if !filled.Load() {
		filled.Store(true)
		g.begun = time.Now()
	}
	for {
		since := time.Since(g.begun)
		if since > settle {
			steady.Store(true)
		}
		if since > g.measure {
			if g.closed {
				return g.idle(ctx, time.Hour)
			}
			g.closed = true
			return stream.EndOfInput{}, nil
		}
		ahead := time.Duration(float64(g.sent)/float64(g.rate)*1e9) - since
		if ahead <= 0 {
			g.sent += generatorBatch
			return g.batch(func() int { return g.r.IntN(g.keys) }, generatorBatch), nil
		}
		if el, err := g.idle(ctx, ahead); el != nil || err != nil || len(g.wake) > 0 {
			return el, err
		}
		select {
		case <-g.wake:
			return nil, nil
		default:
		}
	}
}

// idle waits for d, or until it is woken.
func (g *generatorReader) idle(ctx context.Context, d time.Duration) (stream.Element, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil, nil
	case <-g.wake:
		g.Wake() // for Poll to see
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *generatorReader) batch(key func() int, n int) *stream.Batch {
	b := stream.NewBatch(g.env.Schema)
	for range n {
		k := b.Alloc(16)
		clear(k)
		binary.BigEndian.PutUint64(k, uint64(key()))
		g.split.NextOffset++
		b.Append(stream.Record{Key: k, Topic: "gen", Offset: g.split.NextOffset, Timestamp: -1, Pos: -1})
	}
	return b
}

func (g *generatorReader) Splits() []stream.Split { return []stream.Split{g.split} }
func (g *generatorReader) Close() error           { return nil }
