package verify

import (
	"fmt"
	"slices"
)

// keyedCheck compares the rows of an aggregate in a target with its inputs, key by
// key.
type keyedCheck struct {
	t     *target
	k     *keyedRows
	a     *aggregate
	r     *Result
	o     *Options
	reach reach
	open  []openKey
	tried map[string]bool // idents that belong to a key
	// Keys of which not everything could be checked, and those of them whose last
	// row is the full count.
	unsure, unsureRight int64
	shared              int64 // keys that look alike in the rows
	// Keys that a job without exactly-once has counted again, and those of them whose
	// last row is the full count all the same.
	repeated, repeatedRight int64
	keys                    int64
}

// openKey is a key that has inputs without a row.
type openKey struct {
	id      int32
	ends    []*way
	covered int64
	lacks   []input // instead of ends
	merged  bool    // ends holds one of many
}

// checkKeyed checks the rows of one aggregate.
func (t *target) checkKeyed(k *keyedRows, r *Result, o *Options, progress func(done, total int64)) {
	c := &keyedCheck{t: t, k: k, a: k.agg, r: r, o: o, reach: newReach(len(k.agg.seen.list)), tried: map[string]bool{}}
	for id := range c.a.keyed {
		if id%1024 == 0 {
			progress(int64(id), int64(len(c.a.keyed)))
		}
		c.key(int32(id))
	}
	for _, p := range c.open {
		switch {
		case p.lacks != nil:
			c.lackingInputs(p)
		case p.merged:
			c.lackingRow(p)
		default:
			c.lacking(p)
		}
	}
	c.strangers()
	c.say()
}

// key checks one key.
func (c *keyedCheck) key(id int32) {
	c.keys++
	ident := c.k.ident(c.a.keyed[id].group)
	if c.tried[ident] {
		c.shared++
		return
	}
	c.tried[ident] = true
	h := c.history(id, ident)
	if !c.k.feed.ordered {
		c.onlyEnd(h)
		return
	}
	if !c.a.onChange && len(h.ins) > 1 && !h.uniform() {
		if c.merged(id, h) {
			return
		}
	}
	most := mendMost
	if c.t.res.atLeastOnce {
		most = 0 // it repeats itself: that is counted, not explained
	}
	v := h.judge(most)
	if v.gaveUp || v.tooMany || len(v.findings) > 0 {
		if cover, ok := h.cover(); ok && cover.better(&v) {
			c.covered(id, h, cover)
			return
		}
	}
	if v.gaveUp || v.tooMany && most == 0 {
		c.onlyEnd(h)
		return
	}
	for _, f := range v.findings {
		c.report(f.kind, f.row, f.n, h.group, f.why)
	}
	c.reached(h, v, id)
}

func (c *keyedCheck) report(k Kind, r *row, n int64, group, why string) {
	c.r.found(&c.t.res, n, Finding{Kind: k, Topic: c.t.topic, Partition: r.partition, Offset: r.offset, Key: group, Why: why})
}

// history collects what is known about a key.
func (c *keyedCheck) history(id int32, ident string) *history {
	in := c.a.keyed[id]
	h := &history{a: c.a, t: c.t, feed: c.k.feed, group: in.group, streams: &c.a.seen, timed: c.a.onChange && !c.t.appendTime}
	all := make([]input, 0, in.count)
	for i := in.last; i >= 0; i = all[len(all)-1].prev {
		all = append(all, *c.a.inputs.at(i))
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(x, y input) int { return int(x.stream) - int(y.stream) })
	h.ins = runs(all, func(x, y *input) bool { return x.stream == y.stream })
	if at, ok := c.k.ids[ident]; ok {
		rows := make([]row, 0, c.k.count[at])
		for i := c.k.last[at]; i >= 0; i = rows[len(rows)-1].prev {
			rows = append(rows, *c.t.rows.at(i))
		}
		slices.Reverse(rows)
		h.total = len(rows)
		h.outs = runs(rows, func(x, y *row) bool { return x.partition == y.partition })
	}
	h.placed = c.k.placed
	h.budget = searchStart + searchBudget*(len(all)+h.total)
	return h
}

// runs cuts a list where neighbours do not belong together.
func runs[T any](list []T, same func(x, y *T) bool) (out [][]T) {
	for from, i := 0, 1; i <= len(list); i++ {
		if i == len(list) || !same(&list[i-1], &list[i]) {
			out = append(out, list[from:i])
			from = i
		}
	}
	return out
}

// reached notes how far each stream has had an effect at least, and what is left over.
func (c *keyedCheck) reached(h *history, v keyVerdict, id int32) {
	left := false
	for s, in := range h.ins {
		at := len(in)
		for _, w := range v.ends {
			at = min(at, h.least(w, s))
		}
		left = left || at < len(in)
		if at > 0 {
			c.reach.extend(in[at-1].stream, in[at-1].offset)
		}
	}
	if left {
		c.open = append(c.open, openKey{id: id, ends: v.ends, covered: v.covered})
	}
}

// least returns how far a stream is used up on a way at least: the equal inputs before
// its place may have come from other streams, as far as those have such inputs left.
func (h *history) least(w *way, s int) int {
	at := int(w.pos[s])
	if at == 0 {
		return 0
	}
	back, _ := w.around(h, s, s, at-1)
	others := 0
	for t := range h.ins {
		if t != s {
			_, ahead := w.around(h, t, s, at-1)
			others += ahead
		}
	}
	return at - min(back, others)
}

// lacking tells missing updates from those that are behind: of all ways to explain
// the rows, the one with the fewest missing counts.
func (c *keyedCheck) lacking(p openKey) {
	h := c.history(p.id, c.k.ident(c.a.keyed[p.id].group))
	var missing, behind int64
	var place input
	for n, w := range p.ends {
		m, b, at := c.left(h, w)
		if n == 0 || m < missing {
			missing, behind, place = m, b, at
		}
	}
	covered := min(p.covered, missing)
	missing -= covered
	behind -= min(p.covered-covered, behind)
	if !c.a.onChange {
		missing, behind = min(missing, 1), min(behind, 1-min(missing, 1))
	}
	at := c.a.seen.list[place.stream]
	f := Finding{Topic: at.topic, Partition: at.partition, Offset: place.offset, Key: h.group}
	f.Kind, f.Why = Missing, "this record and perhaps others of the key have had no effect in "+c.t.topic
	c.r.found(&c.t.res, missing, f)
	f.Kind, f.Why = Behind, "not yet processed: no later record of its partition has had an effect"
	c.r.found(&c.t.res, behind, f)
}

// left counts the inputs that are left over on a way. Those at or before a place that
// is known to have been processed are missing, unless equal inputs of other streams
// may stand for them.
func (c *keyedCheck) left(h *history, w *way) (missing, behind int64, place input) {
	for s, in := range h.ins {
		for i := range in[w.pos[s]:] {
			rest := &in[int(w.pos[s])+i]
			switch {
			case c.beyond(rest):
			case rest.offset <= c.reach[rest.stream]:
				missing++
				place = *rest
			default:
				behind++
				if missing == 0 {
					place = *rest
				}
			}
		}
	}
	if spare := min(missing, c.spare(h, w)); spare > 0 {
		missing, behind = missing-spare, behind+spare
	}
	return missing, behind, place
}

// spare returns how many of the inputs that are missing on a way may have been
// processed instead of equal ones of other streams that nobody knows to be processed.
func (c *keyedCheck) spare(h *history, w *way) (n int64) {
	for s, in := range h.ins {
		at := int(w.pos[s])
		if at == len(in) || in[at].offset > c.reach[in[at].stream] {
			continue
		}
		var need, have int64
		_, ahead := w.around(h, s, s, at)
		for i := range in[at : at+ahead] {
			if in[at+i].offset <= c.reach[in[at+i].stream] {
				need++
			}
		}
		for t := range h.ins {
			if t == s {
				continue
			}
			back, _ := w.around(h, t, s, at)
			from := int(w.pos[t]) - back
			for i := range back {
				if e := &h.ins[t][from+i]; e.offset > c.reach[e.stream] {
					have++
				}
			}
		}
		n += min(need, have)
	}
	return n
}

// beyond reports whether an input lies behind the end that was asked for: then its
// row may be there or not.
func (c *keyedCheck) beyond(in *input) bool {
	at := c.a.seen.list[in.stream]
	end, ok := c.o.Until.at(at.topic, at.partition)
	return ok && in.offset >= end
}

// strangers are rows of keys that no record has.
func (c *keyedCheck) strangers() {
	for ident, at := range c.k.ids {
		if c.tried[ident] {
			continue
		}
		c.report(Altered, c.t.rows.at(c.k.last[at]), int64(c.k.count[at]), ident, fmt.Sprintf("no record has this key; rows: %d", c.k.count[at]))
	}
}
