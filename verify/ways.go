package verify

import (
	"encoding/binary"
	"slices"
)

// input is a record as an aggregate sees it.
type input struct {
	contribution uint32
	prev         int32 // the input before it of the same key, -1 for none
	stream       uint16
	ts, offset   int64
}

// keyInputs are the inputs of a key, linked from the last one.
type keyInputs struct {
	group string
	last  int32
	count int32
}

// history is what is known about one key: its inputs by stream and its rows by
// partition, all in order. The question is whether the rows are what the inputs give
// in some interleaving of the streams.
type history struct {
	a       *aggregate
	t       *target
	feed    *feed
	group   string
	ins     [][]input
	outs    [][]row
	total   int // rows
	streams *streams
	timed   bool // rows carry the time of their input
	placed  bool // rows depend on the place of their input
	budget  int  // ways that may still be followed

	scratch []cell
	text    []byte
	given   []uint64
}

// way is one order of the inputs up to some point.
type way struct {
	spot
	outPos  []int32
	used    int // rows
	state   []cell
	known   bool // an input of the key was accepted
	dirty   bool // changed since it was last written
	skipped *skip
}

// skip is an update of which no row was found on a way.
type skip struct {
	hash uint64
	next *skip
}

func (h *history) start() (out []*way) {
	for _, p := range starts(h, len(h.ins)) {
		out = append(out, &way{spot: p, outPos: make([]int32, len(h.outs)), state: make([]cell, len(h.a.items))})
	}
	return out
}

func (w *way) clone() *way {
	c := *w
	c.spot, c.outPos, c.state = w.spot.clone(), slices.Clone(w.outPos), slices.Clone(w.state)
	return &c
}

// key is the same for ways that have come to the same point.
func (h *history) key(w *way) string {
	b := w.appendKey(h, nil)
	for _, n := range w.outPos {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if w.dirty {
		b = append(b, 1)
	}
	return string(b)
}

// length and same make the inputs the lanes of a spot.
func (h *history) length(s int) int { return len(h.ins[s]) }

func (h *history) same(s, i, t, j int) bool {
	x, y := &h.ins[s][i], &h.ins[t][j]
	return x.contribution == y.contribution && (!h.timed || x.ts == y.ts) && !h.placed
}

// head returns the next input of a stream on the way, nil at its end.
func (h *history) head(w *way, s int) *input {
	if int(w.pos[s]) == len(h.ins[s]) {
		return nil
	}
	return &h.ins[s][w.pos[s]]
}

// effect is what an input does in a state.
type effect uint8

const (
	nothing  effect = iota // it changes nothing, and never will
	rejected               // it cannot be added in this state
	update                 // it changes the key
)

// try adds an input to the state of w; the new state is in h.scratch.
func (h *history) try(w *way, in *input) effect {
	h.scratch = append(h.scratch[:0], w.state...)
	changed, ok := h.a.add(h.scratch, h.a.contributions[in.contribution])
	switch {
	case !ok:
		return rejected
	case changed || !w.known:
		return update
	}
	return nothing
}

// settle takes the inputs that change nothing: to take them at once closes no other
// way. What is left may begin in several orders.
func (h *history) settle(w *way) []*way {
	var moved []int
	for again := true; again; {
		again = false
		for s := range h.ins {
			for in := h.head(w, s); in != nil && h.try(w, in) == nothing; in = h.head(w, s) {
				w.pos[s]++
				again = true
				if !slices.Contains(moved, s) {
					moved = append(moved, s)
				}
			}
		}
	}
	ways := []*way{w}
	for _, s := range moved {
		var next []*way
		for _, v := range ways {
			next = append(next, v.at(v.arrive(h, s))...)
		}
		ways = next
	}
	return ways
}

// at returns copies of w at other places.
func (w *way) at(places []spot) (out []*way) {
	for _, p := range places {
		v := *w
		v.spot, v.outPos, v.state = p, slices.Clone(w.outPos), slices.Clone(w.state)
		out = append(out, &v)
	}
	return out
}

// rows returns what a state is written as, without the time: one row for each record
// that comes out at the sink. trigger is nil for rows written at a checkpoint. The
// result is good until the next call.
func (h *history) rows(state []cell, trigger *input) []uint64 {
	h.given = h.given[:0]
	h.text = h.a.show(h.text[:0], h.group, state)
	h.push(h.a.record(h.text, h.group, h.streams, trigger), 0)
	return h.given
}

// push sends a record down the feed.
func (h *history) push(rec *streamRecord, at int) {
	if at < len(h.feed.chain) {
		h.feed.chain[at].apply(rec, func(r *streamRecord) { h.push(r, at+1) })
		return
	}
	if key, value, headers, ok := h.feed.to.sink.row(rec); ok {
		h.given = append(h.given, h.t.hash.row(key, value, headers))
	}
}

// matches returns the ways on which rows are the next ones of the topic; w is used up.
// Rows of one key can lie in several partitions, between which there is no order.
func (h *history) matches(w *way, rows []uint64, trigger *input) []*way {
	front := []*way{w}
	for _, hash := range rows {
		var next []*way
		for _, v := range front {
			next = append(next, h.match(v, hash, trigger)...)
		}
		front = next
	}
	return front
}

func (h *history) match(w *way, hash uint64, trigger *input) (out []*way) {
	var at []int
	for q, rows := range h.outs {
		if i := int(w.outPos[q]); i < len(rows) && rows[i].hash == hash && h.sameTime(&rows[i], trigger) {
			at = append(at, q)
		}
	}
	for n, q := range at {
		v := w
		if n < len(at)-1 {
			v = w.clone()
		}
		v.outPos[q]++
		v.used++
		out = append(out, v)
	}
	return out
}

func (h *history) sameTime(r *row, trigger *input) bool {
	return !h.timed || trigger == nil || r.ts == trigger.ts
}

// timeFits reports whether an input can be the cause of any next row: a cheap test
// before the row is made.
func (h *history) timeFits(w *way, in *input) bool {
	if !h.timed || !h.feed.one {
		return true
	}
	for q, out := range h.outs {
		if at := int(w.outPos[q]); at < len(out) && out[at].ts == in.ts {
			return true
		}
	}
	return false
}
