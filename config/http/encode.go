package http

import (
	"etl/config"
	"etl/expr"
	walhttp "etl/sink/wal/http"
	"etl/stream"
)

// encoding says how a record becomes a row. It is shared; encoders are not.
type encoding struct {
	value  *expr.Program
	fields *expr.Fields
}

// newEncoding compiles the expressions of a sink.
func newEncoding(c *config.Component, s *Sink) *encoding {
	in, e := c.Schema(), &encoding{}
	switch {
	case len(s.Map) > 0 && s.Value != "":
		c.Problem("value", "sink.value", "value and map exclude each other", "remove one of the two")
	case len(s.Map) > 0:
		var names []string
		var programs []*expr.Program
		for _, f := range c.CompileFields("map", s.Map, expr.Env{This: in}) {
			names, programs = append(names, f.Name), append(programs, f.Value)
		}
		e.fields = expr.NewFields(names, programs)
	case s.Value != "":
		e.value = c.Compile("value", s.Value, expr.Env{This: in})
	case in.Format == stream.Text:
		e.value = c.Compile("format", "this", expr.Env{This: in})
	case in.Format == stream.Raw && c.Known("value", "map"):
		c.Problem("", "http.raw", "the records are raw bytes, which are no JSON", "give value: or map:, or decode: json at the source")
	}
	return e
}

// encoder returns what makes the encoder of one writer, nil when values go as they are.
func (e *encoding) encoder() func() walhttp.Encoder {
	if e.value == nil && e.fields == nil {
		return nil
	}
	return func() walhttp.Encoder {
		ev := expr.NewEvaluator()
		return func(dst []byte, r *stream.Record) ([]byte, error) {
			if e.fields != nil {
				return ev.AppendFields(dst, e.fields, r)
			}
			return ev.AppendJSON(dst, e.value, r)
		}
	}
}
