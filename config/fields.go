package config

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// field describes one key of a group, as the struct's tags say it. The decoder,
// the schema, the dump and the reference page all read this one table:
//
//	yaml:"name"        the key
//	doc:"..."          one line for editors and the reference page
//	default:"10s"      the value when the key is absent
//	oneof:"a|b"        the words that are allowed
//	means:"a|b"        what each of them means, in half a line
//	required:"true"    an error when the key is absent
//	min:"1" max:"9"    bounds of numbers
//	word:"true"        the group may be written as this key's value alone
//	one:"true"         a list that may be written as its only element
//	comma:"true"       elements may hold several values, separated by commas
//	reserved:"a b"     on the blank field: keys of later versions
type field struct {
	name     string
	index    int
	typ      reflect.Type
	doc      string
	def      string
	words    []string
	means    []string
	required bool
	min, max *int64
	word     bool
	one      bool
	comma    bool
}

// meant returns the word whose meaning begins with what somebody wrote instead: "exactly
// once, ..." is the meaning of what exactly_once, Exactly-Once and "exactly once" ask for.
func (f field) meant(text string) string {
	text = strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(text))
	for i, m := range f.means {
		if said, _, _ := strings.Cut(m, ","); said == text {
			return f.words[i]
		}
	}
	return ""
}

// explained lists the words with what each means, as far as that is told.
func (f field) explained() string {
	if len(f.means) == 0 {
		return oneOf(f.words)
	}
	var b strings.Builder
	for i, m := range f.means {
		switch {
		case i > 0 && i == len(f.means)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(f.words[i] + " (" + m + ")")
	}
	return b.String()
}

// group describes a struct of the file.
type group struct {
	fields   []field
	reserved []string
}

var groups sync.Map // of *group by reflect.Type

// groupOf returns the fields of a struct type.
func groupOf(t reflect.Type) *group {
	if g, ok := groups.Load(t); ok {
		return g.(*group)
	}
	g := &group{}
	for i := range t.NumField() {
		f := t.Field(i)
		g.reserved = append(g.reserved, strings.Fields(f.Tag.Get("reserved"))...)
		name, ok := f.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		out := field{name: name, index: i, typ: f.Type, doc: f.Tag.Get("doc"), def: f.Tag.Get("default"),
			required: f.Tag.Get("required") == "true", word: f.Tag.Get("word") == "true",
			one: f.Tag.Get("one") == "true", comma: f.Tag.Get("comma") == "true",
			min: bound(f.Tag.Get("min")), max: bound(f.Tag.Get("max"))}
		if words := f.Tag.Get("oneof"); words != "" {
			out.words = strings.Split(words, "|")
		}
		if means := f.Tag.Get("means"); means != "" {
			out.means = strings.Split(means, "|")
		}
		g.fields = append(g.fields, out)
	}
	groups.Store(t, g)
	return g
}

func bound(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// get returns the field with the name.
func (g *group) get(name string) (field, bool) {
	for _, f := range g.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// names returns the keys of the group.
func (g *group) names() (out []string) {
	for _, f := range g.fields {
		out = append(out, f.name)
	}
	return out
}

// shorthand returns the field that may stand for the whole group.
func (g *group) shorthand() (field, bool) {
	for _, f := range g.fields {
		if f.word {
			return f, true
		}
	}
	return field{}, false
}

// The types that are leaves although they are structs or numbers.
var (
	exprType     = reflect.TypeFor[Expr]()
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	secretType   = reflect.TypeFor[Secret]()
	orderedType  = reflect.TypeFor[orderedMap]()
)

// isMap reports whether t is a Map, and gives the type of its values.
func isMap(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() == reflect.Slice && t.Implements(orderedType) {
		return t.Elem().Field(1).Type, true
	}
	return nil, false
}

// says describes a type in messages: "a number", "one of a, b".
func says(t reflect.Type, f field) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case durationType:
		return "a duration such as 10s, 5m or 7d"
	case sizeType:
		return "a size such as 64MiB"
	case exprType:
		return "an expression"
	case secretType:
		return "text"
	}
	if _, ok := isMap(t); ok {
		return "a group of keys"
	}
	switch t.Kind() {
	case reflect.String:
		if len(f.words) > 0 {
			return "one of " + strings.Join(f.words, ", ")
		}
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if f.one {
			return "a list, or its only element"
		}
		return "a list"
	case reflect.Struct:
		if w, ok := groupOf(t).shorthand(); ok {
			return says(w.typ, w) + ", or a group of keys"
		}
		return "a group of keys"
	}
	return "a whole number"
}
