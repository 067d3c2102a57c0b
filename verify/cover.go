package verify

import "slices"

// coverage compares the rows of a key with its inputs by their times alone. Where each
// input gives one row, which carries its time, this says how many rows are too many
// and which inputs have none, also when a job has gone back to an earlier state and
// taken its inputs in another order since.
type coverage struct {
	extra int64
	first *row // that is one too many
	lacks []input
	done  []input // those that certainly have a row
}

// cover returns the coverage; ok is false where inputs and rows do not correspond.
func (h *history) cover() (c coverage, ok bool) {
	if !h.a.onChange || !h.feed.one || !h.timed {
		return c, false
	}
	rows := map[int64][]*row{}
	for _, out := range h.outs {
		for i := range out {
			rows[out[i].ts] = append(rows[out[i].ts], &out[i])
		}
	}
	inputs := map[int64][]input{}
	for _, in := range h.ins {
		for i := range in {
			if !h.a.always(h.a.contributions[in[i].contribution]) {
				return c, false
			}
			inputs[in[i].ts] = append(inputs[in[i].ts], in[i])
		}
	}
	for ts, in := range inputs {
		n := len(rows[ts])
		if n >= len(in) {
			c.done, rows[ts] = append(c.done, in...), rows[ts][len(in):]
			continue
		}
		c.lacks, rows[ts] = append(c.lacks, in[n:]...), nil
	}
	for _, left := range rows {
		c.extra += int64(len(left))
		for _, r := range left {
			if c.first == nil || r.offset < c.first.offset {
				c.first = r
			}
		}
	}
	return c, true
}

// better reports whether a coverage says more than what was found row by row: that
// supposes a job that goes on from where it was, and mixes things up when the job went
// back.
func (c *coverage) better(v *keyVerdict) bool {
	var extra, missing int64
	for _, f := range v.findings {
		switch f.kind {
		case Duplicated:
			extra += f.n
		case Missing:
			missing += f.n
		}
	}
	switch {
	case c.extra == 0 && len(c.lacks) == 0:
		return false
	case v.tooMany:
		return true
	}
	return extra > 0 && (extra != c.extra || missing > 0)
}

// lackingInputs tells the inputs of a key that have no row apart, as lacking does.
func (c *keyedCheck) lackingInputs(p openKey) {
	group := c.a.keyed[p.id].group
	for _, in := range p.lacks {
		if c.beyond(&in) {
			continue
		}
		at := c.a.seen.list[in.stream]
		f := Finding{Kind: Missing, Topic: at.topic, Partition: at.partition, Offset: in.offset, Key: group, Why: "this record, or another one of the key with its time, has no row in " + c.t.topic}
		if in.offset > c.reach[in.stream] {
			f.Kind, f.Why = Behind, "not yet processed: no later record of its partition has had an effect"
		}
		c.r.found(&c.t.res, 1, f)
	}
}

// covered reports a key by its coverage.
func (c *keyedCheck) covered(id int32, h *history, v coverage) {
	if v.extra > 0 {
		c.report(Duplicated, v.first, v.extra, h.group, "the key has more rows than records, here and perhaps behind")
	}
	for _, in := range v.done {
		c.reach.extend(in.stream, in.offset)
	}
	if len(v.lacks) > 0 {
		c.open = append(c.open, openKey{id: id, lacks: slices.Clone(v.lacks)})
	}
	if !c.t.res.atLeastOnce {
		return
	}
	c.repeated++
	var trigger *input
	state := make([]cell, len(h.a.items))
	for _, in := range h.ins {
		for i := range in {
			h.a.add(state, h.a.contributions[in[i].contribution])
			trigger = &in[i]
		}
	}
	if h.isLast(slices.Clone(h.rows(state, trigger)), true) {
		c.repeatedRight++
	}
}
