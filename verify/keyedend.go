package verify

import (
	"fmt"
	"slices"
)

// onlyEnd checks of a key what can be checked without an order: that its last row is
// the full count, and that it does not have more rows than updates.
func (c *keyedCheck) onlyEnd(h *history) {
	c.unsure++
	state := make([]cell, len(h.a.items))
	var trigger *input
	inputs, always := 0, true
	for _, in := range h.ins {
		for i := range in {
			contribution := h.a.contributions[in[i].contribution]
			h.a.add(state, contribution)
			always = always && h.a.always(contribution)
			inputs++
			trigger = &in[i]
		}
	}
	if !h.a.onChange {
		trigger = nil
	}
	right := h.isLast(slices.Clone(h.rows(state, trigger)), c.k.feed.ordered)
	switch {
	case right:
		c.unsureRight++
	case c.o.Finished && h.total > 0:
		out := h.outs[len(h.outs)-1]
		c.report(Altered, &out[len(out)-1], 1, h.group, "the last row of the key is not the full count")
	case c.o.Finished:
		c.report(Missing, &row{offset: -1}, 1, h.group, "the key has no row")
	}
	if extra := int64(h.total - inputs); extra > 0 && always && c.k.feed.one {
		out := h.outs[0]
		c.report(Duplicated, &out[len(out)-1], extra, h.group, fmt.Sprintf("%d rows of a key with %d records", h.total, inputs))
	}
}

// isLast reports whether rows are the last of the key, or, where no order is kept,
// among its rows.
func (h *history) isLast(rows []uint64, ordered bool) bool {
	if len(rows) == 0 {
		return true
	}
	want := rows[len(rows)-1]
	for _, out := range h.outs {
		if ordered && out[len(out)-1].hash == want {
			return true
		}
		if !ordered && slices.ContainsFunc(out, func(r row) bool { return r.hash == want }) {
			return true
		}
	}
	return false
}

// say writes down what was checked.
func (c *keyedCheck) say() {
	what := "the rows of each key are its running results in an order that its records can have, none left out or repeated, and the last one counts all records"
	if !c.a.onChange {
		what = "the rows of each key lie on an order that its records can have, and the last one counts all records"
	}
	sure := c.keys - c.unsure - c.shared - c.repeated
	if sure > 0 {
		c.r.checked("%s: %s: %s keys: %s", c.t.topic, c.k.feed, thousands(sure), what)
	}
	if c.unsure > 0 {
		why := "too many orders are possible"
		if !c.k.feed.ordered {
			why = "the way deals records out over another number of subtasks, so that rows have no order"
		}
		c.r.notChecked("%s: %s: %s keys: the rows between the first and the last: %s (the last row is the full count of %s of them)",
			c.t.topic, c.k.feed, thousands(c.unsure), why, thousands(c.unsureRight))
	}
	if c.repeated > 0 {
		c.r.checked("%s: %s: %s keys: every record has a row", c.t.topic, c.k.feed, thousands(c.repeated))
		c.r.notChecked("%s: %s: %s keys: the results, which count some records again after a failure (the last row is the full count of %s of them)",
			c.t.topic, c.k.feed, thousands(c.repeated), thousands(c.repeatedRight))
	}
	if c.shared > 0 {
		c.r.notChecked("%s: %s: %s keys that look like another key in the rows", c.t.topic, c.k.feed, thousands(c.shared))
	}
	if c.a.onChange && c.t.appendTime && c.t.place == nil {
		c.r.notChecked("%s: the time of rows: the topic replaces it (message.timestamp.type)", c.t.topic)
	}
	if !c.a.onChange {
		c.r.notChecked("%s: %s: how many checkpoints there were, and the time of rows: emit: on_checkpoint leaves no trace of them", c.t.topic, c.k.feed)
	}
}
