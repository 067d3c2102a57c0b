package expr

import (
	"fmt"

	"github.com/expr-lang/expr/ast"

	"etl/stream"
)

// metaFields are the members of meta.
var metaFields = map[string]struct {
	typ stream.Kind
	run func(*Evaluator) Value
}{
	"topic":     {stream.String, origin(func(r *stream.Record) Value { return StringValue(r.Topic) })},
	"partition": {stream.Int, origin(func(r *stream.Record) Value { return IntValue(int64(r.Partition)) })},
	"offset":    {stream.Int, origin(func(r *stream.Record) Value { return IntValue(r.Offset) })},
	"timestamp": {stream.Int, timestamp},
	"key":       {stream.String, func(ev *Evaluator) Value { return bytesValue(-1, ev.rec.Key, CodeTextUTF8, "record key") }},
	"headers":   {stream.Object, headers},
}

// origin reads where a record came from: null for those that came from no single
// record, such as the results of an epoch.
func origin(read func(r *stream.Record) Value) func(*Evaluator) Value {
	return func(ev *Evaluator) Value {
		if ev.rec.Topic == "" {
			return null
		}
		return read(ev.rec)
	}
}

func timestamp(ev *Evaluator) Value {
	if ev.rec.Timestamp < 0 {
		return null
	}
	return IntValue(ev.rec.Timestamp)
}

// headers returns all headers as an object; of equal names the last counts, as
// with Kafka's lastHeader.
func headers(ev *Evaluator) Value {
	o := &object{}
	for _, h := range ev.rec.Headers {
		o.set(h.Key, bytesValue(-1, h.Value, CodeTextUTF8, "header"))
	}
	return objectValue(o)
}

func (c *compiler) meta(n ast.Node, field string) term {
	m, ok := metaFields[field]
	if !ok {
		known := []string{"topic", "partition", "offset", "timestamp", "key", "headers"}
		c.errorNear(at(n), CodeUnknownField, field, known, "no field %q in meta", field)
	}
	t := of(m.typ)
	if m.typ == stream.Object {
		t.Open = true
	}
	return term{typ: t, run: m.run, name: field}
}

// header compiles meta.headers["name"] without building the object.
func (c *compiler) header(n *ast.MemberNode) term {
	key := c.term(n.Property)
	if !may(key.typ, stream.String) {
		c.errorf(at(n.Property), CodeType, "a header is named by a string, not %s", key.typ.Kind)
	}
	run, pos := key.value(), at(n)
	return term{typ: of(stream.String), run: func(ev *Evaluator) Value {
		name := text(pos, run(ev), "headers")
		for i := len(ev.rec.Headers) - 1; i >= 0; i-- {
			if h := &ev.rec.Headers[i]; h.Key == name {
				return bytesValue(pos, h.Value, CodeTextUTF8, "header")
			}
		}
		return null
	}}
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
