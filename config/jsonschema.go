package config

import (
	"encoding/json"
	"reflect"

	"etl/internal/invariant"
)

// object is a JSON Schema, or a part of one.
type object map[string]any

// Schema returns the JSON Schema (draft 2020-12) of the pipeline file with the
// component types of r, for editors. The loader is stricter: it also checks what
// belongs together. A file it accepts is valid under the schema.
func Schema(r *Registry) []byte {
	s := groupSchema(reflect.TypeFor[Spec]())
	props := s["properties"].(object)
	for _, section := range sections {
		props[string(section)] = object{"type": "object", "additionalProperties": r.sectionSchema(section)}
	}
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "etl pipeline file"
	b, err := json.MarshalIndent(s, "", "  ")
	invariant.Check(err == nil, "marshal schema: %v", err)
	return append(b, '\n')
}

// sectionSchema is that of one component of a section: its type says which of the
// alternatives holds.
func (r *Registry) sectionSchema(s Section) object {
	var types []object
	for _, word := range r.words(s) {
		t := r.types[s][word]
		one := groupSchema(t.spec)
		shared := groupSchema(commonOf(s))
		for key, p := range shared["properties"].(object) {
			one["properties"].(object)[key] = p
		}
		one["properties"].(object)["type"] = object{"const": word, "description": t.doc}
		one["required"] = append(required(commonOf(s)), required(t.spec)...)
		types = append(types, one)
	}
	return object{"oneOf": types}
}

func required(t reflect.Type) []string {
	out := []string{}
	for _, f := range groupOf(t).fields {
		if f.required {
			out = append(out, f.name)
		}
	}
	return out
}

// groupSchema is that of a struct.
func groupSchema(t reflect.Type) object {
	props := object{}
	for _, f := range groupOf(t).fields {
		p := valueSchema(f.typ, f)
		if f.doc != "" {
			p["description"] = f.doc
		}
		if f.def != "" && f.def != "0" {
			p["default"] = defaultOf(f)
		}
		props[f.name] = p
	}
	s := object{"type": "object", "properties": props, "additionalProperties": false}
	if names := required(t); len(names) > 0 {
		s["required"] = names
	}
	return s
}

// defaultOf is a default in its JSON type.
func defaultOf(f field) any {
	if k := f.typ.Kind(); f.typ != durationType && f.typ != sizeType && k != reflect.String {
		return json.RawMessage(f.def)
	}
	return f.def
}

// variable is what any text with a variable in it matches.
var variable = object{"type": "string", "pattern": `\$\{`}

func orVariable(s object) object { return object{"anyOf": []object{s, variable}} }

func valueSchema(t reflect.Type, f field) object {
	if t.Kind() == reflect.Pointer {
		return valueSchema(t.Elem(), f)
	}
	if elem, ok := isMap(t); ok {
		return object{"type": "object", "additionalProperties": valueSchema(elem, field{words: f.words, min: f.min, max: f.max})}
	}
	switch t {
	case durationType:
		return object{"type": []string{"string", "integer"}, "pattern": `^-?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d))+$|^0$|\$\{`, "maximum": 0, "minimum": 0}
	case sizeType:
		return object{"type": "string", "pattern": `^\d+(\.\d+)? ?([KMGT]i?B|kB|B)$|\$\{`}
	case exprType:
		return object{"type": []string{"string", "number", "boolean"}}
	case secretType:
		return object{"type": "string"}
	}
	return kindSchema(t, f)
}

func kindSchema(t reflect.Type, f field) object {
	switch t.Kind() {
	case reflect.Struct:
		s := groupSchema(t)
		if w, ok := groupOf(t).shorthand(); ok {
			return object{"anyOf": []object{valueSchema(w.typ, w), s}}
		}
		return s
	case reflect.Slice:
		item := valueSchema(t.Elem(), field{words: f.words, min: f.min, max: f.max})
		s := object{"type": "array", "items": item}
		if f.required {
			s["minItems"] = 1
		}
		if f.one || f.comma {
			return object{"anyOf": []object{s, item}}
		}
		return s
	case reflect.Bool:
		return orVariable(object{"type": "boolean"})
	case reflect.String:
		if len(f.words) > 0 {
			return orVariable(object{"enum": f.words})
		}
		return object{"type": "string"}
	}
	s := object{"type": "integer"}
	if f.min != nil {
		s["minimum"] = *f.min
	}
	if f.max != nil {
		s["maximum"] = *f.max
	}
	return orVariable(s)
}
