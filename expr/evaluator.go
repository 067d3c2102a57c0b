package expr

import (
	"unsafe"

	"etl/expr/jsondoc"
	"etl/stream"
)

// Name is a name that the user of an evaluator binds to a value.
type Name uint8

// The names that can be bound.
const (
	It Name = iota
	Table
	Window
	names
)

var nameWords = [names]string{"it", "table", "window"}

// The limits of one evaluation: iterations of loops such as filter, and bytes of
// text and lists that it makes.
const (
	maxSteps = 1 << 18
	maxBytes = 64 << 20
	// maxIdle is how much of that memory an evaluator keeps from one record to the
	// next.
	maxIdle = 1 << 20
)

// An evaluator keeps documents for the operators behind it: as many as a batch
// usually has records, unless they are large. A record beyond that is parsed again.
const (
	keptDocs  = 512
	keptBytes = 4 << 20
)

// Evaluator evaluates programs over records. It belongs to one task.
type Evaluator struct {
	prog  *Program
	rec   *stream.Record
	doc   *jsondoc.Doc // of rec.Value, once it was needed
	bound [names]Value
	vars  []Value // of let and of the loops

	text  []byte  // strings that were made
	slab  []Value // elements of lists that were made
	steps int
	bytes int
	held  int // Each in progress: text and slab must stay

	docs []*jsondoc.Doc
	next int
	size int // of docs, in bytes
	null jsondoc.Doc
}

// NewEvaluator returns an evaluator.
func NewEvaluator() *Evaluator {
	ev := &Evaluator{}
	if err := ev.null.Parse([]byte("null"), jsondoc.Strict); err != nil {
		panic(err)
	}
	for i := range ev.bound {
		ev.bound[i] = null
	}
	return ev
}

// Bind gives a name its value until it is bound again. The value's memory must
// stay: it may come from Each, or hold no reference to an evaluator.
func (ev *Evaluator) Bind(name Name, v Value) { ev.bound[name] = v }

func (ev *Evaluator) enter(p *Program, rec *stream.Record) {
	ev.prog, ev.rec, ev.doc = p, rec, nil
	ev.steps, ev.bytes = maxSteps, maxBytes
	if ev.held == 0 {
		ev.text, ev.slab = reuse(ev.text, maxIdle), reuse(ev.slab, maxIdle/valueSize)
	}
	ev.room(p.vars)
}

// reuse returns s emptied, or nothing when it is too large to keep.
func reuse[T any](s []T, keep int) []T {
	if cap(s) > keep {
		return nil
	}
	return s[:0]
}

// room makes room for the variables of a program.
func (ev *Evaluator) room(vars int) {
	if len(ev.vars) < vars {
		ev.vars = make([]Value, vars)
	}
}

// document returns the parsed value of the record, null for a tombstone.
func (ev *Evaluator) document() *jsondoc.Doc {
	if ev.doc == nil {
		ev.doc = ev.parse(ev.rec)
	}
	return ev.doc
}

func (ev *Evaluator) parse(rec *stream.Record) *jsondoc.Doc {
	if rec.Value == nil {
		return &ev.null
	}
	if d, ok := rec.Doc.(*jsondoc.Doc); ok && d.Holds(rec.Value) {
		return d
	}
	// What the source was to check it has checked; here only the grammar counts.
	if err := ev.parseAnew(rec, jsondoc.Lenient); err != nil {
		panic(&failure{code: err.Code, message: err.Error()})
	}
	return rec.Doc.(*jsondoc.Doc)
}

func (ev *Evaluator) parseAnew(rec *stream.Record, mode jsondoc.Mode) *jsondoc.Error {
	d := ev.takeDoc()
	before := d.Size()
	err := d.Parse(rec.Value, mode)
	ev.size += d.Size() - before
	if err != nil {
		rec.Doc = nil
		return err.(*jsondoc.Error)
	}
	rec.Doc = d
	return nil
}

// Check is [CheckJSON] for the value of a record, a null value being fine, and
// keeps the document for the operators behind. Without strict it asks only for the
// grammar.
func (ev *Evaluator) Check(rec *stream.Record, strict bool) error {
	if rec.Value == nil {
		return nil
	}
	mode := jsondoc.Lenient
	if strict {
		mode = jsondoc.Strict
	}
	if err := ev.parseAnew(rec, mode); err != nil {
		return notJSON(err, Where(rec))
	}
	return nil
}

// takeDoc returns the document that was used longest ago. Records that still
// point to it find out by Holds.
func (ev *Evaluator) takeDoc() *jsondoc.Doc {
	if len(ev.docs) < keptDocs && (ev.size < keptBytes || len(ev.docs) == 0) {
		d := new(jsondoc.Doc)
		ev.docs = append(ev.docs, d)
		return d
	}
	d := ev.docs[ev.next%len(ev.docs)]
	ev.next = (ev.next + 1) % len(ev.docs)
	return d
}

// step counts an iteration.
func (ev *Evaluator) step(at int) {
	if ev.steps--; ev.steps < 0 {
		fail(at, CodeLimit, "more than %d steps for one record", maxSteps)
	}
}

// grow counts n bytes that are about to be made.
func (ev *Evaluator) grow(at, n int) {
	if ev.bytes -= n; ev.bytes < 0 {
		fail(at, CodeLimit, "more than %d MiB made for one record", maxBytes>>20)
	}
}

const valueSize = int(unsafe.Sizeof(Value{}))

// list returns room for n elements.
func (ev *Evaluator) list(at, n int) []Value {
	ev.grow(at, n*valueSize)
	if cap(ev.slab)-len(ev.slab) < n {
		// Lists made before stay where they are.
		ev.slab = make([]Value, 0, max(2*cap(ev.slab), n, 64))
	}
	l := ev.slab[len(ev.slab) : len(ev.slab)+n : len(ev.slab)+n]
	ev.slab = ev.slab[:len(ev.slab)+n]
	return l
}

// items returns the elements of a list.
func (ev *Evaluator) items(at int, v Value, op string) []Value {
	if v.kind != stream.List {
		wrongKind(at, v, op, "a list")
	}
	if d, n, ok := v.doc(); ok {
		return ev.loadItems(at, d, n)
	}
	items, _ := v.list()
	return items
}

func (ev *Evaluator) loadItems(at int, d *jsondoc.Doc, n jsondoc.Node) []Value {
	items := ev.list(at, d.Len(n))
	e, ok := d.First(n)
	for i := 0; ok; i++ {
		items[i] = ev.load(d, e)
		e, ok = d.Next(n, e)
	}
	return items
}

// string keeps what f appends and returns it as text.
func (ev *Evaluator) string(at int, f func(dst []byte) []byte) string {
	from := len(ev.text)
	ev.text = f(ev.text)
	made := ev.text[from:]
	ev.grow(at, len(made))
	return view(made)
}

// view returns b as a string without copying it; b must not change while the
// string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// load returns the value of a node.
func (ev *Evaluator) load(d *jsondoc.Doc, n jsondoc.Node) Value {
	switch d.Kind(n) {
	case jsondoc.True:
		return BoolValue(true)
	case jsondoc.False:
		return BoolValue(false)
	case jsondoc.Number:
		return number(d.Raw(n))
	case jsondoc.String:
		return StringValue(ev.loadText(d, n))
	case jsondoc.Array:
		return nodeValue(stream.List, d, n)
	case jsondoc.Object:
		return nodeValue(stream.Object, d, n)
	}
	return null
}

func (ev *Evaluator) loadText(d *jsondoc.Doc, n jsondoc.Node) string {
	t, escaped := d.Text(n)
	if !escaped {
		return view(t)
	}
	return ev.string(0, func(dst []byte) []byte { return jsondoc.Unescape(dst, t) })
}

// It returns the element that Each is at.
func (ev *Evaluator) It() Value { return ev.bound[It] }
