package expr

import (
	"strings"

	"etl/expr/jsondoc"
	"etl/stream"
)

// Program is a compiled expression. It never changes.
type Program struct {
	src  string
	typ  stream.Type
	run  func(*Evaluator) Value
	test func(*Evaluator) bool // of a condition that needs no Value
	path *path                 // of a plain path into a document
	name string                // last name of a plain path
	vars int
}

// Source returns the text the program was compiled from.
func (p *Program) Source() string { return p.src }

// Type returns the type of the result as far as it is known; any value of it may
// be null.
func (p *Program) Type() stream.Type { return p.typ }

// PathName returns the last name of a plain path, such as "id" of this.user.id,
// and false when the program is something else or the path ends in an index.
func (p *Program) PathName() (string, bool) { return p.name, p.name != "" }

// Bool evaluates a condition. Anything but true and false is an error.
func (ev *Evaluator) Bool(p *Program, rec *stream.Record) (ok bool, err error) {
	defer ev.contain(&err)
	ev.enter(p, rec)
	if p.test != nil {
		return p.test(ev), nil
	}
	return truth(0, p.run(ev), "condition"), nil
}

// Value evaluates p. The result is valid until the next call on ev.
func (ev *Evaluator) Value(p *Program, rec *stream.Record) (v Value, err error) {
	defer ev.contain(&err)
	ev.enter(p, rec)
	return p.run(ev), nil
}

// AppendJSON evaluates p and appends the result as JSON. What a plain path leads
// to is copied as it stands in the record. dst comes back as it was on error.
func (ev *Evaluator) AppendJSON(dst []byte, p *Program, rec *stream.Record) (out []byte, err error) {
	out = dst
	defer ev.contain(&err)
	ev.enter(p, rec)
	return ev.appendJSON(dst, p), nil
}

func (ev *Evaluator) appendJSON(dst []byte, p *Program) []byte {
	if p.path != nil {
		return p.path.appendRaw(ev, dst)
	}
	return p.run(ev).AppendJSON(dst)
}

// AppendText evaluates p and appends the result as text: a string without quotes,
// null as nothing, anything else as JSON.
func (ev *Evaluator) AppendText(dst []byte, p *Program, rec *stream.Record) (out []byte, err error) {
	out = dst
	defer ev.contain(&err)
	ev.enter(p, rec)
	return p.run(ev).AppendText(dst), nil
}

// Bytes evaluates p for use as a record key or value: null is nil, anything else
// as AppendText has it, appended to dst.
func (ev *Evaluator) Bytes(dst []byte, p *Program, rec *stream.Record) (out []byte, err error) {
	defer ev.contain(&err)
	ev.enter(p, rec)
	v := p.run(ev)
	if v.IsNull() {
		return nil, nil
	}
	if dst == nil {
		dst = []byte{}
	}
	return v.AppendText(dst), nil
}

// Each evaluates a list and calls f for each element, bound to It, until f returns
// an error, which it returns. f may evaluate other programs on the same record. A
// null list has no elements.
func (ev *Evaluator) Each(p *Program, rec *stream.Record, f func() error) error {
	items, err := ev.elements(p, rec)
	outer := ev.bound[It]
	ev.held++
	for i := 0; err == nil && i < len(items); i++ {
		text, slab := len(ev.text), ev.slab
		ev.bound[It] = items[i]
		err = f()
		ev.text, ev.slab = ev.text[:text], cutBack(ev.slab, slab)
	}
	ev.held--
	ev.bound[It] = outer
	return err
}

// cutBack forgets what was made in slab since before was taken of it.
func cutBack(slab, before []Value) []Value {
	if cap(slab) > 0 && cap(before) > 0 && &slab[:1][0] == &before[:1][0] {
		return slab[:len(before)]
	}
	return slab[:0] // a new one: all of it was made since
}

func (ev *Evaluator) elements(p *Program, rec *stream.Record) (items []Value, err error) {
	defer ev.contain(&err)
	ev.enter(p, rec)
	v := p.run(ev)
	if v.IsNull() {
		return nil, nil
	}
	return ev.items(0, v, "each"), nil
}

// Fields evaluates an ordered set of programs as one JSON object: the map of a
// transform.
type Fields struct {
	heads    []string // {"name": and ,"name":
	programs []*Program
	vars     int
}

// NewFields returns the object whose members are names, in that order.
func NewFields(names []string, programs []*Program) *Fields {
	f := &Fields{programs: programs}
	for i, n := range names {
		open := ","
		if i == 0 {
			open = "{"
		}
		f.heads = append(f.heads, open+string(jsondoc.AppendString(nil, n))+":")
		f.vars = max(f.vars, programs[i].vars)
	}
	return f
}

// AppendFields appends the object of f for a record. dst comes back as it was on
// error.
func (ev *Evaluator) AppendFields(dst []byte, f *Fields, rec *stream.Record) (out []byte, err error) {
	if len(f.programs) == 0 {
		return append(dst, "{}"...), nil
	}
	out = dst
	defer ev.contain(&err)
	made := dst
	ev.enter(f.programs[0], rec)
	ev.room(f.vars)
	for i, p := range f.programs {
		ev.prog = p
		made = ev.appendJSON(append(made, f.heads[i]...), p)
	}
	return append(made, '}'), nil
}

// excerpt shortens a source for messages.
func excerpt(src string) string {
	src = strings.Join(strings.Fields(src), " ")
	if len(src) > 80 {
		return src[:77] + "..."
	}
	return src
}
