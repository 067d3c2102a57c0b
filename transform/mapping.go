package transform

import (
	"context"

	"etl/expr"
	"etl/stream"
)

// Field is a member of the object a map makes.
type Field struct {
	Name  string
	Value *expr.Program
}

// Map replaces a record's value by a JSON object of expressions, in the order of
// Fields.
type Map struct{ Fields []Field }

// OutputSchema returns the schema of the object. Two fields of one name are an
// error.
func (m Map) OutputSchema(*stream.Schema) (*stream.Schema, error) {
	return objectSchema("map", m.Fields)
}

// objectSchema returns the schema of an object of fields, and refuses a name that
// occurs twice.
func objectSchema(op string, fields []Field) (*stream.Schema, error) {
	var types []stream.Field
	for _, f := range fields {
		types = append(types, stream.Field{Name: f.Name, Type: f.Value.Type()})
	}
	return schemaOf(op, types, nil)
}

func schemaOf(op string, fields []stream.Field, alias map[string]string) (*stream.Schema, error) {
	t := stream.Type{Kind: stream.Object}
	for _, f := range fields {
		if _, twice := t.Field(f.Name); twice {
			return nil, stream.Errorf(stream.BadConfig, op+".duplicate_name", op, f.Name, "two fields of the output have this name").
				WithFix("give one of them another name; a key has the last name of its path")
		}
		t.Fields = append(t.Fields, f)
	}
	return &stream.Schema{Format: stream.JSON, Type: t, Alias: alias}, nil
}

// compiled returns fields as the evaluator wants them.
func compiled(fields []Field) *expr.Fields {
	var names []string
	var programs []*expr.Program
	for _, f := range fields {
		names, programs = append(names, f.Name), append(programs, f.Value)
	}
	return expr.NewFields(names, programs)
}

// New returns the operator for one task.
func (m Map) New() Operator {
	schema, _ := m.OutputSchema(nil)
	ev, fields := expr.NewEvaluator(), compiled(m.Fields)
	return MapFunc(schema, func(dst []byte, r *stream.Record) ([]byte, error) {
		if r.Value == nil {
			return nil, nil
		}
		return ev.AppendFields(dst, fields, r)
	})
}

// MapFunc returns an operator that replaces each record's value by what f appends
// to dst; nil makes it null. The schema is that of the new values. f must not
// change the record, nor keep it.
func MapFunc(schema *stream.Schema, f func(dst []byte, r *stream.Record) (value []byte, err error)) Operator {
	return &mapping{schema: schema, f: f, buf: make([]byte, 0, 256)}
}

type mapping struct {
	stateless
	schema *stream.Schema
	f      func(dst []byte, r *stream.Record) ([]byte, error)
	buf    []byte
}

// Process implements Operator.
func (m *mapping) Process(_ context.Context, b *stream.Batch, out Output) error {
	d := b.Derive(m.schema)
	for i := range b.Records {
		r := &b.Records[i]
		value, err := m.f(m.buf[:0], r)
		if err != nil {
			out.Reject(*r, err)
			continue
		}
		if value != nil {
			m.buf = value
		}
		appendWith(d, r, value)
	}
	out.EmitBatch(d)
	return nil
}

// appendWith appends r with a copy of another value: no longer the record that was
// read, which d, derived from r's batch, keeps at hand.
func appendWith(d *stream.Batch, r *stream.Record, value []byte) {
	d.Records = append(d.Records, *r)
	c := &d.Records[len(d.Records)-1]
	c.Value, c.Doc, c.Pos, c.Orig = keep(d, value), nil, -1, r.AsRead()
}
