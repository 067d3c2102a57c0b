package verify

import (
	"slices"

	"etl/expr/decimal"
)

// uniform reports whether all inputs contribute the same: then their order does not
// matter.
func (h *history) uniform() bool {
	for _, in := range h.ins {
		for i := range in {
			if in[i].contribution != h.ins[0][0].contribution {
				return false
			}
		}
	}
	return true
}

// merged checks a key whose rows are written at checkpoints and whose inputs come in
// several streams; false when its rows cannot be read.
func (c *keyedCheck) merged(id int32, h *history) bool {
	if len(h.outs) > 1 {
		return c.scattered(h)
	}
	m := newMerger(h, c.k, slices.Concat(h.outs...))
	if m == nil {
		return false
	}
	if end, ok := m.chain(); ok {
		c.chained(id, m, end)
		return true
	}
	c.rowByRow(m)
	c.onlyEnd(h)
	return true
}

// scattered checks a key whose rows lie in several partitions, each by itself.
func (c *keyedCheck) scattered(h *history) bool {
	for _, out := range h.outs {
		m := newMerger(h, c.k, out)
		if m == nil {
			return false
		}
		c.rowByRow(m)
	}
	c.onlyEnd(h)
	return true
}

// chained notes how far the inputs of a key have had an effect.
func (c *keyedCheck) chained(id int32, m *merger, end []int32) {
	all := true
	for s, in := range m.ins {
		all = all && int(end[s]) == len(in)
	}
	if !all {
		c.open = append(c.open, openKey{id: id, merged: true})
		return
	}
	for _, in := range m.ins {
		c.reach.extend(in[len(in)-1].stream, in[len(in)-1].offset)
	}
}

// rowByRow checks of each row what can be said without the others: whether any inputs
// at all give it, and whether results that only grow have grown.
func (c *keyedCheck) rowByRow(m *merger) {
	start := make([]int32, len(m.ins))
	for n := range m.list {
		m.work, m.stuck = mergeWork, false
		switch {
		case !m.possible(start, n):
			c.report(Altered, &m.list[n], 1, m.group, "no set of the key's records gives this row")
		case n > 0 && m.shrinks(n):
			c.report(OutOfOrder, &m.list[n], 1, m.group, "a result is lower than in the row before")
		case n > 0 && m.list[n].hash == m.list[n-1].hash && m.counts():
			c.report(Duplicated, &m.list[n], 1, m.group, "the row is that before it, and a record in between would show")
		}
	}
}

// shrinks reports whether a result that only grows is lower in row n than before.
func (m *merger) shrinks(n int) bool {
	for i, t := range m.targets[n] {
		if t.known && m.positive[i] && decimal.Cmp(t.cell.num, m.targets[n-1][i].cell.num) < 0 {
			return true
		}
	}
	return false
}

// counts reports whether every record shows in a count.
func (m *merger) counts() bool {
	for i := range m.a.items {
		if it := &m.a.items[i]; it.op == "count" && it.of == nil && it.where == nil {
			return true
		}
	}
	return false
}

// lackingRow tells whether the last row of a key is missing, or behind: it is behind
// when the rows that are there can hold everything that is known to be processed.
func (c *keyedCheck) lackingRow(p openKey) {
	h := c.history(p.id, c.k.ident(c.a.keyed[p.id].group))
	m := newMerger(h, c.k, slices.Concat(h.outs...))
	from := make([]int32, len(h.ins))
	place, late, known := h.ins[0][0], false, false
	for s, in := range h.ins {
		for i := range in {
			switch {
			case in[i].offset <= c.reach[in[i].stream]:
				from[s], known = int32(i+1), true
				place = in[i]
			case !c.beyond(&in[i]):
				late = true
			}
		}
	}
	at := c.a.seen.list[place.stream]
	f := Finding{Topic: at.topic, Partition: at.partition, Offset: place.offset, Key: h.group}
	switch n := len(m.list); {
	case n == 0 && known, n > 0 && !m.possible(from, n-1):
		f.Kind, f.Why = Missing, "this record and perhaps others of the key have had no effect in "+c.t.topic
	case late:
		f.Kind, f.Why = Behind, "not yet processed: no later record of its partition has had an effect"
	default:
		return // only records behind the end that was asked for
	}
	c.r.found(&c.t.res, 1, f)
}
