package kafka

import (
	"fmt"

	"etl/config"
	"etl/expr"
	"etl/sink/twophase/kafka"
	"etl/stream"
)

// encoding says how a record becomes a row. It is shared; encoders are not.
type encoding struct {
	key, value *expr.Program
	fields     *expr.Fields
	format     stream.Format // of value
	noHeaders  bool
}

// newEncoding compiles the expressions of a sink and checks that the result can be
// written as asked.
func newEncoding(c *config.Component, s *Sink) *encoding {
	if s.Value == "" && len(s.Map) == 0 && (s.Encode == "" || s.Encode == "raw") && c.RawLetters() && s.Headers == "none" {
		c.Problem("headers", "sink.dead_letter_headers", "a dead letter says in headers what happened", "remove headers, or write the fields of dead letters with encode: json")
	}
	in := c.Schema()
	e := &encoding{noHeaders: s.Headers == "none", format: in.Format}
	if s.Key != "" {
		e.key = c.Compile("key", s.Key, expr.Env{This: in})
	}
	switch s.Encode {
	case "json":
		e.format = stream.JSON
	case "text":
		e.format = stream.Text
	case "raw":
		e.format = stream.Raw
	}
	switch {
	case c.ValueAndMap(s.Value, s.Map):
	case len(s.Map) > 0:
		e.mapped(c, s, in)
	case s.Value != "":
		if s.Encode == "" {
			e.format = stream.JSON
		}
		e.value = c.Compile("value", s.Value, expr.Env{This: in})
	default:
		e.whole(c, s, in)
	}
	return e
}

// mapped writes an object of fields.
func (e *encoding) mapped(c *config.Component, s *Sink, in *stream.Schema) {
	if s.Encode == "text" || s.Encode == "raw" {
		c.Problem("encode", "sink.encode", "map makes a JSON object, which is not "+s.Encode, "remove encode, or use value")
	}
	e.fields = c.CompileObject("map", s.Map, expr.Env{This: in})
}

// whole writes the value as it came, or text as JSON.
func (e *encoding) whole(c *config.Component, s *Sink, in *stream.Schema) {
	switch {
	case !c.Known("encode", "value", "map", "inputs"): // nobody knows what is to be written
	case s.Encode == "" || s.Encode == "raw" || s.Encode == in.Format.String():
	case s.Encode == "json" && in.Format == stream.Text:
		e.value = c.Compile("encode", "this", expr.Env{This: in})
	default:
		c.Problem("encode", "sink.encode", fmt.Sprintf("the records are %s, which cannot be written as %s", in.Format, s.Encode), "give value: or map:, or another encode:")
	}
}

// passes reports whether rows are the records as they are.
func (e *encoding) passes() bool {
	return e.key == nil && e.value == nil && e.fields == nil && !e.noHeaders
}

// encoder returns the encoder of one writer, nil when nothing is to be done.
func (e *encoding) encoder() kafka.Encoder {
	if e.passes() {
		return nil
	}
	w := &writing{encoding: e, ev: expr.NewEvaluator()}
	return w.encode
}

// writing is an encoding at work in one task.
type writing struct {
	*encoding
	ev  *expr.Evaluator
	buf []byte
}

func (w *writing) encode(r *stream.Record, mem *stream.Batch, row *kafka.Row) error {
	if w.noHeaders {
		row.Headers = nil
	}
	if w.key != nil {
		b, err := w.ev.Bytes(w.buf[:0], w.key, r)
		if err != nil {
			return err
		}
		row.Key = w.keep(mem, b)
	}
	if r.Value == nil || w.value == nil && w.fields == nil {
		return nil // a tombstone stays one
	}
	b, err := w.newValue(r)
	if err != nil {
		return err
	}
	row.Value = w.keep(mem, b)
	return nil
}

func (w *writing) newValue(r *stream.Record) ([]byte, error) {
	switch {
	case w.fields != nil:
		return w.ev.AppendFields(w.buf[:0], w.fields, r)
	case w.format == stream.JSON:
		return w.ev.AppendJSON(w.buf[:0], w.value, r)
	}
	return w.ev.Bytes(w.buf[:0], w.value, r)
}

// keep copies b out of the scratch buffer. Null stays null, and empty empty.
func (w *writing) keep(mem *stream.Batch, b []byte) []byte {
	if b == nil {
		return nil
	}
	w.buf = b
	if len(b) == 0 {
		return []byte{}
	}
	return mem.Copy(b)
}
