package transform

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"etl/expr/jsondoc"
	"etl/stream"
)

// Letters makes objects of dead letters that come as records, for sinks that write
// fields (docs/dead-letters.md lists them):
//
//	{"topic", "partition", "offset", "timestamp", "component", "code", "message",
//	 "made", "key", "key_base64", "value", "value_base64",
//	 "headers": [{"key", "value", "value_base64"}...]}
//
// key and value are texts, and null when the bytes are no text that every store
// takes (UTF-8 without U+0000): then the field with _base64 has them. Both are null
// for null. What is not known is null.
type Letters struct{}

var (
	textType   = stream.Type{Kind: stream.String}
	intType    = stream.Type{Kind: stream.Int}
	headerType = stream.Type{Kind: stream.Object, Fields: []stream.Field{{Name: "key", Type: textType}, {Name: "value", Type: textType},
		{Name: "value_base64", Type: textType}}}
	lettersSchema = &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Object, Fields: []stream.Field{
		{Name: "topic", Type: textType}, {Name: "partition", Type: intType}, {Name: "offset", Type: intType}, {Name: "timestamp", Type: intType},
		{Name: "component", Type: textType}, {Name: "code", Type: textType}, {Name: "message", Type: textType},
		{Name: "made", Type: stream.Type{Kind: stream.Bool}},
		{Name: "key", Type: textType}, {Name: "key_base64", Type: textType}, {Name: "value", Type: textType}, {Name: "value_base64", Type: textType},
		{Name: "headers", Type: stream.Type{Kind: stream.List, Elem: &headerType}}}}}
)

// OutputSchema returns the schema of the objects.
func (Letters) OutputSchema(*stream.Schema) (*stream.Schema, error) { return lettersSchema, nil }

// New returns the operator for one task.
func (Letters) New() Operator { return &letters{} }

type letters struct {
	stateless
	buf []byte
}

// Process implements Operator. A record that is no dead letter is rejected.
func (o *letters) Process(_ context.Context, b *stream.Batch, out Output) error {
	d := b.Derive(lettersSchema)
	for i := range b.Records {
		r := &b.Records[i]
		l, ok := stream.OpenLetter(r)
		if !ok {
			out.Reject(*r, stream.Errorf(stream.Failed, "dead_letter.headers", "read dead letter", "", "the record has not the headers of a dead letter"))
			continue
		}
		o.buf = AppendLetter(o.buf[:0], &l)
		appendWith(d, r, o.buf)
	}
	out.EmitBatch(d)
	return nil
}

// AppendLetter appends a letter as a JSON object; see [Letters].
func AppendLetter(dst []byte, l *stream.Letter) []byte {
	text := func(name, s string) {
		dst = append(append(append(dst, '"'), name...), `":`...)
		dst = append(jsondoc.AppendString(dst, strings.ToValidUTF8(s, "\ufffd")), ',')
	}
	number := func(name string, n int64, known bool) {
		dst = append(append(append(dst, '"'), name...), `":`...)
		if known {
			dst = strconv.AppendInt(dst, n, 10)
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, ',')
	}
	dst = append(dst, '{')
	if l.Topic != "" {
		text("topic", l.Topic)
	} else {
		dst = append(dst, `"topic":null,`...)
	}
	number("partition", int64(l.Partition), l.Partition >= 0)
	number("offset", l.Offset, l.Offset >= 0)
	number("timestamp", l.Timestamp, l.Timestamp >= 0)
	text("component", string(l.Component))
	text("code", l.Code)
	text("message", l.Message)
	dst = append(strconv.AppendBool(append(dst, `"made":`...), l.Made), ',')
	dst = append(appendBytes(dst, "key", l.Key), ',')
	dst = append(appendBytes(dst, "value", l.Value), `,"headers":[`...)
	for i, h := range l.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		text("key", h.Key)
		dst = append(appendBytes(dst, "value", h.Value), '}')
	}
	return append(dst, "]}"...)
}

// appendBytes appends two members, of which one has the bytes.
func appendBytes(dst []byte, name string, p []byte) []byte {
	member := func(suffix string) { dst = append(append(append(append(dst, '"'), name...), suffix...), `":`...) }
	plain := utf8.Valid(p) && bytes.IndexByte(p, 0) < 0
	member("")
	if p != nil && plain {
		dst = jsondoc.AppendString(dst, p)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, ',')
	member("_base64")
	if plain {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, p), '"')
}
