package verify

import (
	"fmt"

	"etl/expr"
	"etl/stream"
)

// decodedSchema is that of the records of a source.
func decodedSchema(decode string) *stream.Schema {
	switch decode {
	case "text":
		return &stream.Schema{Format: stream.Text, Type: object(stream.Field{Name: "value", Type: stream.Type{Kind: stream.String}})}
	case "raw":
		return &stream.Schema{Format: stream.Raw, Type: stream.Type{Kind: stream.Bytes}}
	}
	return &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Any}}
}

func object(fields ...stream.Field) stream.Type {
	return stream.Type{Kind: stream.Object, Fields: fields}
}

// join returns the schema of records that come from several components: what they
// all have. The types decide what an expression means (a sum of ints has 64 bits),
// so they are worked out here as the language's rules say.
func join(schemas []*stream.Schema) (*stream.Schema, error) {
	out := schemas[0]
	for _, s := range schemas[1:] {
		if s == out {
			continue
		}
		if s.Format != out.Format {
			return nil, fmt.Errorf("the inputs are %s and %s", out.Format, s.Format)
		}
		out = &stream.Schema{Format: out.Format, Type: joinTypes(out.Type, s.Type), Alias: commonAliases(out.Alias, s.Alias)}
	}
	return out, nil
}

func joinTypes(a, b stream.Type) stream.Type {
	if a.Kind != b.Kind {
		return stream.Type{Kind: stream.Any}
	}
	switch a.Kind {
	case stream.List:
		if a.Elem == nil || b.Elem == nil {
			return stream.Type{Kind: stream.List}
		}
		e := joinTypes(*a.Elem, *b.Elem)
		return stream.Type{Kind: stream.List, Elem: &e}
	case stream.Object:
		return joinObjects(a, b)
	}
	return stream.Type{Kind: a.Kind}
}

func joinObjects(a, b stream.Type) stream.Type {
	out := stream.Type{Kind: stream.Object, Open: a.Open || b.Open}
	for _, f := range a.Fields {
		if t, ok := b.Field(f.Name); ok {
			out.Fields = append(out.Fields, stream.Field{Name: f.Name, Type: joinTypes(f.Type, t)})
		}
	}
	if n := len(out.Fields); n < len(a.Fields) || n < len(b.Fields) {
		out.Open = true
	}
	return out
}

func commonAliases(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for name, field := range a {
		if b[name] == field {
			out[name] = field
		}
	}
	return out
}

// fieldsSchema is that of an object of expressions.
func fieldsSchema(names []string, programs []*expr.Program) *stream.Schema {
	var fields []stream.Field
	for i, p := range programs {
		fields = append(fields, stream.Field{Name: names[i], Type: p.Type()})
	}
	return &stream.Schema{Format: stream.JSON, Type: object(fields...)}
}
