package config

import (
	"slices"
	"strings"
)

// The fields of a dead letter, as docs/dead-letters.md lists them: those that say which
// record it is about and what happened, and those that hold the record.
var (
	LetterReasons = []string{"topic", "partition", "offset", "timestamp", "component", "code", "message", "made"}
	LetterRecord  = []string{"key", "key_base64", "value", "value_base64", "headers"}
)

// LetterFields says where a sink keeps the fields of the dead letters that it writes, so
// that they can be read back.
type LetterFields struct {
	// Whole is the column, or the member, that holds the object with all of them; "" for
	// none.
	Whole string
	// Names are the columns, or the members, that hold one field each, by field. Only a
	// field that is written as it is counts: what a function made of it is not read back.
	Names map[string]string
}

// LetterFieldsOf reads the expressions of columns or members.
func LetterFieldsOf(m Map[Expr]) LetterFields {
	out := LetterFields{Names: map[string]string{}}
	for _, p := range m {
		text := strings.TrimSpace(string(p.Value))
		field, plain := strings.CutPrefix(text, "this.")
		switch {
		case text == "this" && out.Whole == "":
			out.Whole = p.Key
		case plain && out.Names[field] == "" && (slices.Contains(LetterReasons, field) || slices.Contains(LetterRecord, field)):
			out.Names[field] = p.Key
		}
	}
	return out
}

// Lack returns those of fields that the sink does not write as they are.
func (f *LetterFields) Lack(fields []string) (lack []string) {
	if f.Whole != "" {
		return nil
	}
	for _, name := range fields {
		if f.Names[name] == "" {
			lack = append(lack, name)
		}
	}
	return lack
}
