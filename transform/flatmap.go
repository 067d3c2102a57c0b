package transform

import (
	"context"

	"etl/expr"
	"etl/stream"
)

// FlatMap makes a record of each element of a list: none, one or many for each
// that comes.
type FlatMap struct {
	// Each gives the list; compiled with Want: stream.List. null is an empty one.
	Each *expr.Program
	// Where selects elements; nil selects all. Where and Map see the element as it,
	// of the type that ElementType gives.
	Where *expr.Program
	// Map makes the new value; nil makes it the element itself.
	Map []Field
}

// ElementType returns the type of it.
func ElementType(each *expr.Program) stream.Type {
	if t := each.Type(); t.Kind == stream.List && t.Elem != nil {
		return *t.Elem
	}
	return stream.Type{}
}

// OutputSchema returns the schema of the new values.
func (f FlatMap) OutputSchema(*stream.Schema) (*stream.Schema, error) {
	if f.Map == nil {
		return &stream.Schema{Format: stream.JSON, Type: ElementType(f.Each)}, nil
	}
	return objectSchema("flat_map", f.Map)
}

// New returns the operator for one task.
func (f FlatMap) New() Operator {
	schema, _ := f.OutputSchema(nil)
	return &flatMap{FlatMap: f, schema: schema, ev: expr.NewEvaluator(), fields: compiled(f.Map)}
}

type flatMap struct {
	stateless
	FlatMap
	schema *stream.Schema
	ev     *expr.Evaluator
	fields *expr.Fields
	buf    []byte
}

// Process implements Operator. A record of which one element fails is rejected as
// a whole, and nothing of it is emitted.
func (f *flatMap) Process(_ context.Context, b *stream.Batch, out Output) error {
	d := b.Derive(f.schema)
	for i := range b.Records {
		r := &b.Records[i]
		before := len(d.Records)
		if err := f.ev.Each(f.Each, r, func() error { return f.element(d, r) }); err != nil {
			d.Records = d.Records[:before]
			out.Reject(*r, err)
		}
	}
	out.EmitBatch(d)
	return nil
}

// element emits one element.
func (f *flatMap) element(d *stream.Batch, r *stream.Record) (err error) {
	if f.Where != nil {
		if keep, err := f.ev.Bool(f.Where, r); err != nil || !keep {
			return err
		}
	}
	if f.Map == nil {
		f.buf = f.ev.It().AppendJSON(f.buf[:0])
	} else if f.buf, err = f.ev.AppendFields(f.buf[:0], f.fields, r); err != nil {
		return err
	}
	appendWith(d, r, f.buf)
	d.Records[len(d.Records)-1].Version = 0 // of several records none is the value of its key
	return nil
}

// FlatMapFunc returns an operator that emits, for each record, as many as f calls
// emit. Their bytes are copied. The schema is that of the emitted values; a record
// for which f returns an error is rejected, and nothing of it is emitted. Derive
// new records from r by copying it or by r.Derived().
func FlatMapFunc(schema *stream.Schema, f func(r *stream.Record, emit func(stream.Record)) error) Operator {
	return &flatMapFunc{schema: schema, f: f}
}

type flatMapFunc struct {
	stateless
	schema *stream.Schema
	f      func(r *stream.Record, emit func(stream.Record)) error
}

// Process implements Operator.
func (f *flatMapFunc) Process(_ context.Context, b *stream.Batch, out Output) error {
	d := b.Derive(f.schema)
	var from *stream.Record
	emit := func(r stream.Record) {
		d.AppendCopy(&r)
		last := &d.Records[len(d.Records)-1]
		last.Orig, last.Made = from.AsRead(), from.Made
	}
	for i := range b.Records {
		from = &b.Records[i]
		before := len(d.Records)
		if err := f.f(&b.Records[i], emit); err != nil {
			d.Records = d.Records[:before]
			out.Reject(b.Records[i], err)
		}
	}
	out.EmitBatch(d)
	return nil
}
