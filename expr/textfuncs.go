package expr

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"etl/expr/jsondoc"
	"etl/stream"
)

func init() {
	pieces := func([]stream.Type) stream.Type { return listOf(of(stream.String)) }
	define(map[string]function{
		"split":       {2, 3, []stream.Kind{stream.String, stream.String, stream.Int}, pieces, split},
		"splitAfter":  {2, 3, []stream.Kind{stream.String, stream.String, stream.Int}, pieces, splitAfter},
		"replace":     {3, 4, []stream.Kind{stream.String, stream.String, stream.String, stream.Int}, gives(stream.String), replace},
		"repeat":      {2, 2, []stream.Kind{stream.String, stream.Int}, gives(stream.String), repeat},
		"join":        {1, 2, []stream.Kind{stream.List, stream.String}, gives(stream.String), joinTexts},
		"indexOf":     {2, 2, texts, gives(stream.Int), func(a arguments) Value { return position(a, strings.Index(a.text(0), a.text(1))) }},
		"lastIndexOf": {2, 2, texts, gives(stream.Int), func(a arguments) Value { return position(a, strings.LastIndex(a.text(0), a.text(1))) }},
		"toBase64":    {1, 1, texts, gives(stream.String), func(a arguments) Value { return a.made(base64.StdEncoding.EncodeToString([]byte(a.text(0)))) }},
		"fromBase64":  {1, 1, texts, gives(stream.String), fromBase64},
		"string":      {1, 1, []stream.Kind{stream.Any}, gives(stream.String), toText},
		"toJSON":      {1, 1, []stream.Kind{stream.Any}, gives(stream.String), toJSON},
		"fromJSON":    {1, 1, texts, gives(stream.Any), fromJSON},
	})
}

// position returns a byte position as one in characters; -1 stays.
func position(a arguments, at int) Value {
	if at > 0 {
		at = utf8.RuneCountInString(a.text(0)[:at])
	}
	return IntValue(int64(at))
}

// split cuts a string without copying the pieces.
func split(a arguments) Value { return pieces(a, 0) }

func splitAfter(a arguments) Value { return pieces(a, len(a.text(1))) }

// pieces cuts text at each separator, of which each piece keeps the first keep
// bytes.
func pieces(a arguments, keep int) Value {
	s, sep, most := a.text(0), a.text(1), -1
	if a.len() == 3 {
		most = a.int(2)
	}
	if most == 0 {
		return listValue(nil)
	}
	if sep == "" {
		return characters(a, s, most)
	}
	n := strings.Count(s, sep) + 1
	if most > 0 {
		n = min(n, most)
	}
	items := a.ev.list(a.at, n)
	for i := range items[:n-1] {
		at := strings.Index(s, sep)
		items[i] = StringValue(s[:at+keep])
		s = s[at+len(sep):]
	}
	items[n-1] = StringValue(s)
	return listValue(items)
}

// characters cuts a string into its characters, the rest in the last of at most
// most pieces.
func characters(a arguments, s string, most int) Value {
	n := utf8.RuneCountInString(s)
	if most > 0 {
		n = min(n, most)
	}
	items := a.ev.list(a.at, n)
	for i := range items {
		_, size := utf8.DecodeRuneInString(s)
		if i == n-1 {
			size = len(s)
		}
		items[i] = StringValue(s[:size])
		s = s[size:]
	}
	return listValue(items)
}

func replace(a arguments) Value {
	s, old, by, most := a.text(0), a.text(1), a.text(2), -1
	if a.len() == 4 {
		most = a.int(3)
	}
	hits := strings.Count(s, old)
	if most >= 0 {
		hits = min(hits, most)
	}
	a.ev.grow(a.at, len(s)+hits*len(by))
	return StringValue(strings.Replace(s, old, by, most))
}

func repeat(a arguments) Value {
	s, n := a.text(0), a.int(1)
	switch {
	case n < 0:
		a.fail(CodeInvalid, "count below 0")
	case len(s) > 0 && n > maxBytes/len(s):
		a.fail(CodeLimit, "more than %d MiB", maxBytes>>20)
	}
	return a.made(strings.Repeat(s, n))
}

func joinTexts(a arguments) Value {
	glue := ""
	if a.len() == 2 {
		glue = a.text(1)
	}
	return StringValue(a.ev.string(a.at, func(dst []byte) []byte {
		for i, e := range a.items(0) {
			if i > 0 {
				dst = append(dst, glue...)
			}
			dst = append(dst, text(a.at, e, a.name)...)
		}
		return dst
	}))
}

func fromBase64(a arguments) Value {
	b, err := base64.StdEncoding.DecodeString(a.text(0))
	if err != nil || !utf8.Valid(b) {
		a.fail(CodeInvalid, "not base64 of UTF-8 text")
	}
	return a.made(string(b))
}

func toText(a arguments) Value {
	if a.vals[0].kind == stream.String {
		return a.vals[0]
	}
	return toJSON(a)
}

func toJSON(a arguments) Value {
	return StringValue(a.ev.string(a.at, a.vals[0].AppendJSON))
}

// fromJSON parses with the strict rules, whatever those of the source are.
func fromJSON(a arguments) Value {
	d := new(jsondoc.Doc)
	if err := d.Parse([]byte(a.text(0)), jsondoc.Strict); err != nil {
		a.fail(CodeInvalid, "%v", err)
	}
	return a.ev.load(d, 0)
}
