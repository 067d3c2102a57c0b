package expr

import (
	"strings"
	"unicode"
)

// foreign are operators and words of other languages, with what they are called here.
var foreign = map[string]string{
	"=": "==", "===": "==", "<>": "!=", "!==": "!=", "=!": "!=", "=<": "<=", "=>": ">=", "&": "&&",
	"AND": "and", "OR": "or", "NOT": "not", "IN": "in", "IS": "==",
	"null": "nil", "NULL": "nil", "None": "nil", "TRUE": "true", "True": "true", "FALSE": "false", "False": "false",
}

// meant returns what the word or operator at a character of src, or the one before it, is
// called here, and where it begins; "" when it is none of another language.
func meant(src string, at int) (name string, begin int) {
	text := []rune(src)
	if at > len(text) {
		return "", 0
	}
	for _, end := range []int{at, at - 1} {
		for end >= 0 && end < len(text) && end < at && unicode.IsSpace(text[end]) {
			end--
		}
		word, begin := wordAt(text, end)
		if name := foreign[word]; name != "" && (begin == 0 || text[begin-1] != '.') { // a field may have any name
			return name, begin
		}
	}
	return "", 0
}

// wordAt returns the run of characters of one kind, of operators or of words, around one
// of them.
func wordAt(text []rune, at int) (word string, begin int) {
	kind := unicode.IsLetter
	if at < 0 || at >= len(text) {
		return "", 0
	}
	if !kind(text[at]) {
		kind = func(r rune) bool { return strings.ContainsRune("=<>!&", r) }
	}
	begin, end := at, at
	for begin > 0 && kind(text[begin-1]) {
		begin--
	}
	for end < len(text) && kind(text[end]) {
		end++
	}
	return string(text[begin:end]), begin
}
