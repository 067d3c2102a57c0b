package transform

import (
	"context"

	"etl/expr"
	"etl/stream"
)

// stateless is the part of an operator that has nothing to open or close.
type stateless struct{}

// Open does nothing.
func (stateless) Open(context.Context, Env) error { return nil }

// Close does nothing.
func (stateless) Close() error { return nil }

// Filter passes the records for which a condition holds.
type Filter struct {
	// Where is compiled with Want: stream.Bool.
	Where *expr.Program
}

// OutputSchema returns in: a filter changes nothing.
func (Filter) OutputSchema(in *stream.Schema) (*stream.Schema, error) { return in, nil }

// New returns the operator for one task.
func (f Filter) New() Operator {
	ev := expr.NewEvaluator()
	return FilterFunc(func(r *stream.Record) (bool, error) { return ev.Bool(f.Where, r) })
}

// FilterFunc returns an operator that passes the records for which keep is true.
// keep must not change the record, nor keep it.
func FilterFunc(keep func(r *stream.Record) (bool, error)) Operator { return &filter{keep: keep} }

type filter struct {
	stateless
	keep func(*stream.Record) (bool, error)
}

// Process implements Operator. A batch that passes as a whole is passed on itself.
func (f *filter) Process(_ context.Context, b *stream.Batch, out Output) error {
	var kept *stream.Batch // nil as long as all records passed
	for i := range b.Records {
		r := &b.Records[i]
		ok, err := f.keep(r)
		if ok && err == nil {
			if kept != nil {
				kept.Records = append(kept.Records, *r)
			}
			continue
		}
		if kept == nil {
			kept = b.Derive(b.Schema)
			kept.Records = append(kept.Records, b.Records[:i]...)
		}
		if err != nil {
			out.Reject(*r, err)
		}
	}
	if kept == nil {
		b.Retain()
		kept = b
	}
	out.EmitBatch(kept)
	return nil
}
