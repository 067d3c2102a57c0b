package transform

import (
	"context"

	"etl/expr"
	"etl/stream"
)

// Decode checks the values of raw records against a format, for sources that do
// not do so themselves, and passes the good ones on under the format's schema.
type Decode struct {
	// Schema says what the values have to be.
	Schema *stream.Schema
	// Strict adds the rules of package jsondoc to the grammar of JSON.
	Strict bool
}

// OutputSchema returns the schema to decode to.
func (d Decode) OutputSchema(*stream.Schema) (*stream.Schema, error) { return d.Schema, nil }

// New returns the operator for one task.
func (d Decode) New() Operator {
	op := &decode{schema: d.Schema}
	switch d.Schema.Format {
	case stream.JSON:
		ev := expr.NewEvaluator()
		op.check = func(r *stream.Record) error { return ev.Check(r, d.Strict) }
	case stream.Text:
		op.check = checkText
	default:
		op.check = func(*stream.Record) error { return nil }
	}
	return op
}

func checkText(r *stream.Record) error {
	err := expr.CheckText(r.Value)
	if err == nil {
		return nil
	}
	return stream.Errorf(stream.Failed, stream.CodeOf(err), "decode text", expr.Where(r), "value is not valid UTF-8")
}

type decode struct {
	stateless
	schema *stream.Schema
	check  func(*stream.Record) error
}

// Process implements Operator.
func (d *decode) Process(_ context.Context, b *stream.Batch, out Output) error {
	good := b.Derive(d.schema)
	for i := range b.Records {
		r := &b.Records[i]
		if err := d.check(r); err != nil {
			out.Reject(*r, err)
			continue
		}
		good.Records = append(good.Records, *r)
	}
	out.EmitBatch(good)
	return nil
}
