package verify

import (
	"etl/expr/decimal"
	"etl/expr/jsondoc"
)

// cell is the running value of one result.
type cell struct {
	set, isText bool
	num         decimal.Number
	text        string
}

// add adds a contribution to a state, which it changes. changed is false when the
// update would show nothing new and so is not written; ok is false when the engine
// has to reject the input in this state.
func (a *aggregate) add(state []cell, c contribution) (changed, ok bool) {
	for i := range c {
		did, fine := a.items[i].add(&state[i], &c[i])
		if !fine {
			return false, false
		}
		changed = changed || did
	}
	return changed, true
}

func (it *item) add(c *cell, p *part) (changed, ok bool) {
	switch {
	case p.tag == partNone:
		return false, true
	case it.op == "min" || it.op == "max":
		return it.extreme(c, p)
	}
	n := p.num
	if p.tag == partCount {
		n = decimal.Int(1)
	}
	sum, err := decimal.Add(c.num, n)
	if err != nil || it.ints && !sum.IsInt() {
		return false, false
	}
	c.set, c.num = true, sum
	return true, true
}

// extreme keeps the least or greatest; of equal numbers the one written with fewer
// digits.
func (it *item) extreme(c *cell, p *part) (changed, ok bool) {
	isText := p.tag == partText
	switch {
	case !c.set:
	case c.isText != isText:
		return false, false
	case !it.better(c, p):
		return false, true
	}
	*c = cell{set: true, isText: isText, num: p.num, text: p.text}
	return true, true
}

func (it *item) better(c *cell, p *part) bool {
	order := 0
	switch {
	case !c.isText:
		if order = decimal.Cmp(p.num, c.num); order == 0 {
			return len(p.num.Append(nil)) < len(c.num.Append(nil))
		}
	case p.text < c.text:
		order = -1
	case p.text > c.text:
		order = 1
	}
	return order < 0 && it.op == "min" || order > 0 && it.op == "max"
}

// show appends the object that a state is written as.
func (a *aggregate) show(dst []byte, group string, state []cell) []byte {
	heads := a.heads
	for i, raw := range a.components(group) {
		dst = append(append(dst, heads[i]...), raw...)
	}
	heads = heads[len(a.keys):]
	for i := range state {
		dst = append(dst, heads[i]...)
		dst = a.items[i].show(dst, &state[i])
	}
	return append(dst, '}')
}

func (it *item) show(dst []byte, c *cell) []byte {
	switch {
	case c.set && c.isText:
		return jsondoc.AppendString(dst, c.text)
	case c.set:
		return c.num.Append(dst)
	case it.op == "count" || it.op == "sum":
		return append(dst, '0')
	}
	return append(dst, "null"...)
}

// components returns the parts of a canonical key as JSON.
func (a *aggregate) components(group string) (out []string) {
	if len(a.keys) == 1 {
		return []string{group}
	}
	if err := a.doc.Parse([]byte(group), jsondoc.Lenient); err != nil {
		return make([]string, len(a.keys))
	}
	n, ok := a.doc.First(0)
	for ok {
		out = append(out, string(a.doc.Raw(n)))
		n, ok = a.doc.Next(0, n)
	}
	return out
}
