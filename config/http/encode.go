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
	value, fields := c.CompileDocument(s.Value, s.Map, "http.raw")
	return &encoding{value, fields}
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
