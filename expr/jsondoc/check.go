package jsondoc

import (
	"fmt"
	"sync"
)

// The codes of what is wrong with a document. They are stable.
const (
	CodeSyntax    = "json.syntax"
	CodeEmpty     = "json.empty"
	CodeTrailing  = "json.trailing_data"
	CodeBOM       = "json.byte_order_mark"
	CodeUTF8      = "json.invalid_utf8"
	CodeSurrogate = "json.lone_surrogate"
	CodeDuplicate = "json.duplicate_name"
	CodeDepth     = "json.depth"
	CodeSize      = "json.size"
)

var sentences = map[string]string{
	CodeSyntax:    "not valid JSON",
	CodeEmpty:     "no JSON value",
	CodeTrailing:  "data after the JSON value",
	CodeBOM:       "byte order mark before the JSON value",
	CodeUTF8:      "string is not valid UTF-8",
	CodeSurrogate: "escaped surrogate without its other half",
	CodeDuplicate: "name occurs twice in one object",
	CodeDepth:     fmt.Sprintf("nested deeper than %d levels", MaxDepth),
	CodeSize:      "document of 4 GiB or more",
}

// Error says what is wrong with a document and where, and quotes none of it.
type Error struct {
	Code   string
	Offset int // bytes before the place
}

// Error returns the sentence and the place.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (byte %d)", sentences[e.Code], e.Offset)
}

func (p *parser) failure() error { return &Error{Code: p.code, Offset: p.at} }

var docs = sync.Pool{New: func() any { return new(Doc) }}

// Check reports what is wrong with src under the strict rules: nil or an *Error.
// It does not allocate when nothing is.
func Check(src []byte) error {
	d := docs.Get().(*Doc)
	err := d.Parse(src, Strict)
	d.src = nil
	docs.Put(d)
	return err
}
