package expr

import (
	"etl/expr/jsondoc"
	"etl/stream"
)

// AppendKey evaluates the key of a rekey and appends its canonical form, which
// Record.Group holds, state is stored under and key groups are hashed from: the
// JSON of one key, or the list of several. Equal keys have equal bytes: 1, 1.0 and
// 1e0 are one key, and so are "é" and "\u00e9". A key that is null, or is a list
// or an object, is an error. dst comes back as it was on error.
func (ev *Evaluator) AppendKey(dst []byte, keys []*Program, rec *stream.Record) (out []byte, err error) {
	out = dst
	defer ev.contain(&err)
	if len(keys) == 1 {
		ev.enter(keys[0], rec)
		return ev.appendKey(dst, keys[0]), nil
	}
	made := dst
	for i, p := range keys {
		ev.enter(p, rec)
		made = append(made, "[,"[min(i, 1)])
		made = ev.appendKey(made, p)
	}
	return append(made, ']'), nil
}

func (ev *Evaluator) appendKey(dst []byte, p *Program) []byte {
	if p.path != nil {
		if d, n, ok := p.path.locate(ev); ok {
			if raw := d.Raw(n); canonical(d, n, raw) {
				return append(dst, raw...)
			}
		}
	}
	v := p.run(ev)
	switch v.kind {
	case stream.Null:
		fail(0, CodeKeyNull, "key is null or missing")
	case stream.Int, stream.Decimal:
		return v.number().AppendCanonical(dst)
	case stream.String, stream.Bool:
		return v.AppendJSON(dst)
	}
	fail(0, CodeKeyKind, "a key is a string, a number or a bool, not %s", v.kind)
	return dst
}

// canonical reports whether a scalar of a document is written in its canonical
// form already: a string without escapes, a short integer.
func canonical(d *jsondoc.Doc, n jsondoc.Node, raw []byte) bool {
	switch d.Kind(n) {
	case jsondoc.True, jsondoc.False:
		return true
	case jsondoc.String:
		_, escaped := d.Text(n)
		return !escaped
	case jsondoc.Number:
		for _, c := range raw {
			if c-'0' > 9 {
				return false
			}
		}
		return len(raw) < 19
	}
	return false
}
