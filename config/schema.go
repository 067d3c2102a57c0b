package config

import "etl/stream"

// rawSchema is that of records before they are decoded.
var rawSchema = &stream.Schema{Format: stream.Raw, Type: stream.Type{Kind: stream.Bytes}}

// anySchema is that of records about which nothing is known: it stands in for a
// component that could not be built, so that one problem does not cause others.
var anySchema = &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Any}}

// schema returns that of decoded records.
func (d Decode) schema() *stream.Schema {
	switch d.Format {
	case "json":
		return &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Any}}
	case "text":
		value := stream.Field{Name: "value", Type: stream.Type{Kind: stream.String}}
		return &stream.Schema{Format: stream.Text, Type: stream.Type{Kind: stream.Object, Fields: []stream.Field{value}}}
	}
	return rawSchema
}

// unify returns a schema that holds the records of all: fields that all have, and
// room for others. nil when the formats differ.
func unify(schemas []*stream.Schema) *stream.Schema {
	if len(schemas) == 0 {
		return anySchema
	}
	out := schemas[0]
	for _, s := range schemas[1:] {
		if s == out {
			continue
		}
		if s.Format != out.Format {
			return nil
		}
		out = &stream.Schema{Format: out.Format, Type: unifyTypes(out.Type, s.Type), Alias: sameAliases(out.Alias, s.Alias)}
	}
	return out
}

func unifyTypes(a, b stream.Type) stream.Type {
	switch {
	case a.Kind != b.Kind:
		return stream.Type{Kind: stream.Any}
	case a.Kind == stream.List && a.Elem != nil && b.Elem != nil:
		e := unifyTypes(*a.Elem, *b.Elem)
		return stream.Type{Kind: stream.List, Elem: &e}
	case a.Kind != stream.Object:
		return stream.Type{Kind: a.Kind}
	}
	out := stream.Type{Kind: stream.Object, Open: a.Open || b.Open}
	for _, f := range a.Fields {
		if t, ok := b.Field(f.Name); ok {
			out.Fields = append(out.Fields, stream.Field{Name: f.Name, Type: unifyTypes(f.Type, t)})
		}
	}
	out.Open = out.Open || len(out.Fields) < len(a.Fields) || len(out.Fields) < len(b.Fields)
	return out
}

func sameAliases(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range a {
		if b[k] == v {
			out[k] = v
		}
	}
	return out
}
