package expr

import (
	"etl/expr/decimal"
	"etl/expr/jsondoc"
	"etl/stream"
)

// path is a chain of constant steps from a value: this.items[0].price.
type path struct {
	base  Name // names: this
	steps []step
}

// this is the base of paths into the record's own document.
const this = names

// step is one name or index of a path.
type step struct {
	name  string
	index int
	named bool
}

// find follows the steps from a node; false when they lead nowhere.
func (p *path) find(d *jsondoc.Doc, n jsondoc.Node) (jsondoc.Node, bool) {
	for i := range p.steps {
		s := &p.steps[i]
		ok := false
		if s.named {
			n, ok = d.Field(n, s.name)
		} else {
			n, ok = d.Elem(n, s.index)
		}
		if !ok {
			return 0, false
		}
	}
	return n, true
}

// locate returns the node the path leads to; false when there is none, or when
// the base is not part of a document.
func (p *path) locate(ev *Evaluator) (*jsondoc.Doc, jsondoc.Node, bool) {
	if p.base == this {
		d := ev.document()
		n, ok := p.find(d, 0)
		return d, n, ok
	}
	if d, n, ok := ev.bound[p.base].doc(); ok {
		n, ok := p.find(d, n)
		return d, n, ok
	}
	return nil, 0, false
}

// value returns what the path leads to, null for nothing.
func (p *path) value(ev *Evaluator) Value {
	if d, n, ok := p.locate(ev); ok {
		return ev.load(d, n)
	}
	if p.base == this {
		return null
	}
	v := ev.bound[p.base]
	for i := range p.steps {
		v = ev.member(v, &p.steps[i])
	}
	return v
}

// appendRaw appends the text that the path leads to as it stands in the record.
func (p *path) appendRaw(ev *Evaluator, dst []byte) []byte {
	if d, n, ok := p.locate(ev); ok {
		return append(dst, d.Raw(n)...)
	}
	return p.value(ev).AppendJSON(dst)
}

// member returns a member or element of any value, null when there is none.
func (ev *Evaluator) member(v Value, s *step) Value {
	if d, n, ok := v.doc(); ok {
		one := path{steps: []step{*s}}
		if n, ok := one.find(d, n); ok {
			return ev.load(d, n)
		}
		return null
	}
	if o := v.object(); o != nil && s.named {
		e, _ := o.get(s.name)
		return e
	}
	if items, ok := v.list(); ok && !s.named {
		i := s.index
		if i < 0 {
			i += len(items)
		}
		if 0 <= i && i < len(items) {
			return items[i]
		}
	}
	return null
}

// dynamic returns the step that a computed key means.
func dynamic(at int, key Value) (step, bool) {
	switch key.kind {
	case stream.String:
		return step{name: key.text(), named: true}, true
	case stream.Int:
		return step{index: int(key.num)}, true
	case stream.Null:
		return step{}, false
	}
	wrongKind(at, key, "[]", "a string or int")
	return step{}, false
}

// number reads a number of a document.
func number(raw []byte) Value {
	n, ok := decimal.Parse(raw)
	if !ok {
		fail(-1, CodeRange, "number is beyond what can be computed with")
	}
	return NumberValue(n)
}
