package stream

import "strings"

// Format says how the bytes of Record.Value are to be read.
type Format uint8

const (
	// Raw bytes: "this" is not available to expressions, only meta.
	Raw Format = iota
	// Text is UTF-8 text: this.value.
	Text
	// JSON is one JSON document, already checked strictly unless the source says
	// otherwise.
	JSON
)

// String returns the word the pipeline file uses.
func (f Format) String() string { return [...]string{"raw", "text", "json"}[f] }

// Kind is the type of a value as expressions see it.
type Kind uint8

// The kinds. Any is "not known before the record is seen".
const (
	Any Kind = iota
	Null
	Bool
	Int
	Float
	Decimal
	String
	Bytes
	List
	Object
)

// String returns the kind's name in messages.
func (k Kind) String() string {
	return [...]string{"any", "null", "bool", "int", "float", "decimal", "string", "bytes", "list", "object"}[k]
}

// Type is a kind with what it is made of.
type Type struct {
	Kind   Kind
	Elem   *Type   // of a List; nil: any
	Fields []Field // of an Object, in order
	Open   bool    // an Object that may have further fields
}

// Field is a named part of an Object.
type Field struct {
	Name string
	Type Type
}

// Field returns the type of a field of an object.
func (t Type) Field(name string) (Type, bool) {
	for _, f := range t.Fields {
		if f.Name == name {
			return f.Type, true
		}
	}
	return Type{}, false
}

// String returns a short form, such as {word: string, n: int}.
func (t Type) String() string {
	switch {
	case t.Kind == List && t.Elem != nil:
		return "list of " + t.Elem.String()
	case t.Kind != Object:
		return t.Kind.String()
	}
	parts := make([]string, 0, len(t.Fields)+1)
	for _, f := range t.Fields {
		parts = append(parts, f.Name+": "+f.Type.String())
	}
	if t.Open {
		parts = append(parts, "...")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Schema describes the records of an edge. It is made at plan time and shared
// by all batches of the edge; it never changes.
type Schema struct {
	Format Format
	// Type is the type of "this".
	Type Type
	// Alias maps names that expressions may use after "this." to the field they
	// mean: after an aggregate keyed by this.word, "key" is "word".
	Alias map[string]string
}
