package verify

import (
	"cmp"
	"fmt"
	"slices"
)

// ref is a row or an expected row under what it is compared by.
type ref struct {
	h uint64
	i int32
}

func sortRefs(refs []ref) {
	slices.SortFunc(refs, func(a, b ref) int { return cmp.Or(cmp.Compare(a.h, b.h), cmp.Compare(a.i, b.i)) })
}

// comparison is what the rows of a target without an aggregate are compared with.
type comparison struct {
	t      *target
	r      *Result
	o      *Options
	want   []ref
	got    []ref
	groups []group // that lack rows
	lacks  map[uint64]int
	match  []int32 // for each row of plain the expected row, or unmatched
	at     map[int32]int32
	// mixed rows have equals, so that nobody can say which is which.
	mixed      int64
	unexpected []int32
	clean      bool
}

// group is a set of equal expected rows of which some are not there.
type group struct {
	lo, hi  int // in want
	lack    int64
	windows int64 // how many of it may be behind
}

const unmatched int32 = -1

// checkPlain compares rows and expected rows as multisets, and their order.
func (t *target) checkPlain(r *Result, o *Options) {
	c := &comparison{t: t, r: r, o: o, lacks: map[uint64]int{}, match: make([]int32, len(t.plain)), at: make(map[int32]int32), clean: true}
	for n, i := range t.plain {
		c.match[n] = unmatched
		row := t.rows.at(i)
		c.got = append(c.got, ref{t.timed(row.hash, row.ts), int32(n)})
	}
	for i := range t.expected.n {
		e := t.expected.at(i)
		c.want = append(c.want, ref{t.timed(e.hash, e.ts), i})
	}
	sortRefs(c.want)
	sortRefs(c.got)
	c.merge()
	c.findBehind()
	c.reportMissing()
	c.order()
	if c.mixed > 0 {
		c.orderOfEquals()
	}
}

// timed joins a row with its time, if the topic keeps it.
func (t *target) timed(hash uint64, ts int64) uint64 {
	if t.appendTime {
		return hash
	}
	return hash ^ mix(uint64(ts))
}

// merge walks through both sorted lists, one set of equal rows after the other.
func (c *comparison) merge() {
	w, g := 0, 0
	for w < len(c.want) || g < len(c.got) {
		h := uint64(0)
		if g == len(c.got) || w < len(c.want) && c.want[w].h <= c.got[g].h {
			h = c.want[w].h
		} else {
			h = c.got[g].h
		}
		w2, g2 := w, g
		for w2 < len(c.want) && c.want[w2].h == h {
			w2++
		}
		for g2 < len(c.got) && c.got[g2].h == h {
			g2++
		}
		c.equals(w, w2, c.got[g:g2])
		w, g = w2, g2
	}
}

// equals compares one set of equal rows.
func (c *comparison) equals(lo, hi int, got []ref) {
	want := c.want[lo:hi]
	if len(want) == 0 {
		for _, g := range got {
			c.unexpected = append(c.unexpected, g.i)
		}
		return
	}
	if lack := len(want) - len(got) - c.beyondIn(want); lack > 0 {
		c.lacks[want[0].h] = len(c.groups)
		c.groups = append(c.groups, group{lo: lo, hi: hi, lack: int64(lack)})
	}
	for n := len(want); n < len(got); n++ {
		c.clean = false
		c.report(Duplicated, got[n].i, fmt.Sprintf("the row is there %d times, and %d times expected", len(got), len(want)))
	}
	n := min(len(want), len(got))
	if !c.together(want, got) {
		c.mixed += int64(n)
		return
	}
	for i := range n {
		c.match[got[i].i] = want[i].i
	}
}

// beyond reports whether an expected row lies behind the end that was asked for:
// then it may be there or not.
func (c *comparison) beyond(i int32) bool {
	e := c.t.expected.at(i)
	s := c.t.seen.list[e.stream]
	until, ok := c.o.Until.at(s.topic, s.partition)
	return ok && e.offset >= until
}

func (c *comparison) beyondIn(want []ref) (n int) {
	if c.o.Until == nil {
		return 0
	}
	for _, w := range want {
		if c.beyond(w.i) {
			n++
		}
	}
	return n
}

// together reports whether a set of equal rows comes from one stream and lies in
// one partition, so that the first is the first: or is complete and single.
func (c *comparison) together(want, got []ref) bool {
	if len(want) > 1 && len(got) < len(want) {
		return false // which ones are missing is not known
	}
	for _, w := range want[1:] {
		if c.t.expected.at(w.i).stream != c.t.expected.at(want[0].i).stream {
			return false
		}
	}
	for _, g := range got[min(1, len(got)):] {
		if len(want) > 1 && c.row(g.i).partition != c.row(got[0].i).partition {
			return false
		}
	}
	return true
}

func (c *comparison) row(n int32) *row { return c.t.rows.at(c.t.plain[n]) }

func (c *comparison) report(k Kind, n int32, why string) {
	row := c.row(n)
	c.r.found(&c.t.res, 1, Finding{Kind: k, Topic: c.t.topic, Partition: row.partition, Offset: row.offset, Why: why})
}

// findBehind finds, for each stream, the longest end of it of which every row lacks:
// only such rows can be behind.
func (c *comparison) findBehind() {
	closed := make([]bool, len(c.t.seen.list))
	type streamHash struct {
		stream uint16
		h      uint64
	}
	used := map[streamHash]int64{}
	for i := c.t.expected.n - 1; i >= 0; i-- {
		e := c.t.expected.at(i)
		if closed[e.stream] || c.o.Until != nil && c.beyond(i) {
			continue
		}
		k := streamHash{e.stream, c.t.timed(e.hash, e.ts)}
		at, ok := c.lacks[k.h]
		if !ok || used[k] == c.groups[at].lack {
			closed[e.stream] = true
			continue
		}
		used[k]++
		c.groups[at].windows++
		c.at[i] = 1
	}
}

// reportMissing tells missing rows from those that are behind. A row that nobody
// expects stands for one that is missing.
func (c *comparison) reportMissing() {
	altered := int64(len(c.unexpected))
	for _, n := range c.unexpected {
		c.clean = false
		c.t.res.invented++
		c.report(Altered, n, "no input gives this row")
	}
	for _, g := range c.groups {
		behind := min(g.lack, g.windows)
		missing := g.lack - behind
		covered := min(missing, altered)
		altered -= covered
		hidden := min(behind, altered)
		altered -= hidden
		c.lacking(g, Behind, behind-hidden, "not yet processed: no later record of its partition has had an effect")
		c.lacking(g, Missing, missing-covered, "the row of this source record is not in "+c.t.topic)
		c.clean = c.clean && missing == 0
	}
}

// lacking reports n rows of a group at the place of one of their records.
func (c *comparison) lacking(g group, k Kind, n int64, why string) {
	if n == 0 {
		return
	}
	i := c.want[g.lo].i
	for _, w := range c.want[g.lo:g.hi] {
		if c.at[w.i] == 1 == (k == Behind) {
			i = w.i
		}
	}
	e := c.t.expected.at(i)
	s := c.t.seen.list[e.stream]
	c.r.found(&c.t.res, n, Finding{Kind: k, Topic: s.topic, Partition: s.partition, Offset: e.offset, Why: why})
}

// order checks that rows of one source partition lie in its order in every
// partition of the sink. It counts the places where the order breaks.
func (c *comparison) order() {
	last := newReach(len(c.t.seen.list))
	partition := int32(-1)
	for n, m := range c.match {
		row := c.row(int32(n))
		if row.partition != partition {
			partition, last = row.partition, newReach(len(c.t.seen.list))
		}
		if m == unmatched {
			continue
		}
		e := c.t.expected.at(m)
		s := c.t.seen.list[e.stream]
		if s.feed.ordered && int64(m) < last[e.stream] {
			c.clean = false
			c.report(OutOfOrder, int32(n), fmt.Sprintf("the row of %s@%d comes after that of a later record", partitionName(s.topic, s.partition), e.offset))
		}
		last[e.stream] = int64(m)
	}
}
