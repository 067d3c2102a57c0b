package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference returns the tables of all keys of the pipeline file with the component
// types of r, in Markdown: docs/pipeline-file.md holds them.
func Reference(r *Registry) string {
	var b strings.Builder
	b.WriteString("### The file\n\n")
	keyTable(&b, reflect.TypeFor[Spec](), "")
	for _, s := range sections {
		fmt.Fprintf(&b, "### %s\n\nEvery one of them:\n\n", s)
		keyTable(&b, commonOf(s), "")
		for _, word := range r.words(s) {
			t := r.types[s][word]
			fmt.Fprintf(&b, "`type: %s` %s:\n\n", word, t.doc)
			keyTable(&b, t.spec, "")
		}
	}
	return b.String()
}

func keyTable(b *strings.Builder, t reflect.Type, prefix string) {
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	keyRows(b, t, prefix)
	b.WriteString("\n")
}

// keyRows writes a row for each key, those of groups below them.
func keyRows(b *strings.Builder, t reflect.Type, prefix string) {
	for _, f := range groupOf(t).fields {
		def := f.def
		switch {
		case f.required:
			def = "required"
		case def == "0" || def == "":
			def = ""
		default:
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", prefix, f.name, cell(says(f.typ, f)), def, cell(f.doc))
		if inner, name := groupBelow(f.typ); inner != nil {
			keyRows(b, inner, prefix+f.name+"."+name)
		}
	}
}

// groupBelow returns the struct whose keys stand below a key, and what stands
// between: a name that the user chooses.
func groupBelow(t reflect.Type) (reflect.Type, string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if elem, ok := isMap(t); ok && elem.Kind() == reflect.Struct {
		return elem, "NAME."
	}
	if t.Kind() == reflect.Struct && t != secretType {
		return t, ""
	}
	return nil, ""
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
