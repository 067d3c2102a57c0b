package verify

import (
	"encoding/binary"
	"slices"
)

// spot is a place in several streams at once: how far each is used up.
//
// Streams hold runs of equal elements: a batch of records with one time gives them.
// A row of such an element could come from any stream that stands at one, and there
// are far too many ways to deal them out. Most are worth the same. Of two streams that
// stand at equal elements, one comes to the end of its run first; exchanging equal
// elements between the two lets that one have all it needs before the other gets any,
// and nothing that follows can tell. So it is enough to decide, when a stream comes to
// a run, which of those that stand at the same elements it is to go before: the first
// in this order takes all until its run ends. A stream that has nothing behind its run
// can always go last.
type spot struct {
	pos   []int32
	order []int16 // of streams at equal elements; between others it means nothing
}

// lanes are the streams that a spot is a place in. same compares two elements by all
// that matters.
type lanes interface {
	length(s int) int
	same(s, i, t, j int) bool
}

// starts returns the places to begin at: one for each order of streams that begin
// alike.
func starts(l lanes, streams int) []spot {
	list := []spot{{pos: make([]int32, streams)}}
	for s := range streams {
		var next []spot
		for i := range list {
			next = append(next, list[i].arrive(l, s)...)
		}
		list = next
	}
	return list
}

func (p *spot) clone() spot { return spot{slices.Clone(p.pos), slices.Clone(p.order)} }

func (p *spot) ended(l lanes, s int) bool { return int(p.pos[s]) == l.length(s) }

// alike reports whether two streams stand at equal elements.
func (p *spot) alike(l lanes, s, t int) bool {
	return !p.ended(l, s) && !p.ended(l, t) && l.same(s, int(p.pos[s]), t, int(p.pos[t]))
}

// may reports whether the next element may be taken from a stream.
func (p *spot) may(l lanes, s int) bool {
	if p.ended(l, s) {
		return false
	}
	for _, t := range p.order {
		if int(t) == s {
			return true
		}
		if p.alike(l, s, int(t)) {
			return false
		}
	}
	return true
}

// take returns the places behind the next element of a stream.
func (p *spot) take(l lanes, s int) []spot {
	c := p.clone()
	c.pos[s]++
	if i := int(c.pos[s]); i < l.length(s) && l.same(s, i-1, s, i) {
		return []spot{c}
	}
	return c.arrive(l, s)
}

// arrive returns p with a stream that has come to a run, at each place in the order
// that it can have.
func (p *spot) arrive(l lanes, s int) (out []spot) {
	p.order = slices.DeleteFunc(p.order, func(t int16) bool { return int(t) == s })
	at := len(p.order)
	if !p.last(l, s) {
		for i, t := range p.order {
			if !p.alike(l, s, int(t)) {
				continue
			}
			if at = i; p.last(l, int(t)) {
				break
			}
			out = append(out, p.with(s, i))
			at = len(p.order)
		}
	}
	return append(out, p.with(s, at))
}

func (p *spot) with(s, at int) spot {
	c := p.clone()
	c.order = slices.Insert(c.order, at, int16(s))
	return c
}

// last reports whether nothing follows the run that a stream stands at.
func (p *spot) last(l lanes, s int) bool {
	at := int(p.pos[s])
	for i := at; i < l.length(s); i++ {
		if !l.same(s, at, s, i) {
			return false
		}
	}
	return true
}

// appendKey appends what two equal places have in common.
func (p *spot) appendKey(l lanes, b []byte) []byte {
	for _, n := range p.pos {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for i, s := range p.order {
		for _, t := range p.order[:i] {
			if t > s && p.alike(l, int(s), int(t)) {
				b = append(b, byte(t), byte(t>>8), byte(s), byte(s>>8))
			}
		}
	}
	return b
}

// around returns how many elements before and behind the place of a stream are equal
// to one, without a gap.
func (p *spot) around(l lanes, s, t, j int) (back, ahead int) {
	for i := int(p.pos[s]) - 1; i >= 0 && l.same(s, i, t, j); i-- {
		back++
	}
	for i := int(p.pos[s]); i < l.length(s) && l.same(s, i, t, j); i++ {
		ahead++
	}
	return back, ahead
}
