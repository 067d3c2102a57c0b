package file

import (
	"fmt"

	"etl/config"
	"etl/expr"
	"etl/sink/twophase/file"
	"etl/stream"
)

// encoding says how a record becomes a row. It is shared; encoders are not.
type encoding struct {
	partitions []*expr.Program
	value      *expr.Program
	fields     *expr.Fields
	columns    []file.Column
	cells      []*expr.Program
	// whole says that nothing was wrong: what is missing was reported.
	whole bool
}

// newEncoding compiles the expressions of a sink and checks that the result can be
// written in the format. A column's type that was left out is put into s.
func newEncoding(c *config.Component, s *Sink) *encoding {
	in := c.Schema()
	e := &encoding{}
	for _, f := range c.CompileFields("partition_by", s.PartitionBy, expr.Env{This: in}) {
		e.partitions = append(e.partitions, f.Value)
		if k := f.Value.Type().Kind; k == stream.List || k == stream.Object {
			c.Problem("partition_by."+f.Name, "file.partition_by", fmt.Sprintf("a %s names no directory", k), "name a field that is text, a number or a bool")
		}
	}
	e.whole = len(e.partitions) == len(s.PartitionBy)
	switch {
	case !c.Known("format"):
		e.unknown(c, s, in)
		return e
	case s.Format == string(file.JSON):
		e.document(c, s)
		return e
	}
	for key, given := range map[string]bool{"value": s.Value != "", "map": len(s.Map) > 0} {
		if given {
			c.Problem(key, "file.columns", key+" belongs to format json, and the format is "+s.Format, "give columns:")
		}
	}
	e.table(c, s, in)
	return e
}

// unknown judges the expressions of rows whose format is not known.
func (e *encoding) unknown(c *config.Component, s *Sink, in *stream.Schema) {
	env := expr.Env{This: in}
	if s.Value != "" {
		c.Compile("value", s.Value, env)
	}
	c.CompileFields("map", s.Map, env)
	for _, col := range s.Columns {
		c.Compile(valueOf(c, col.Key), col.Value.Value, env)
	}
	e.whole = false
}

// valueOf is the path of a column's expression.
func valueOf(c *config.Component, column string) string {
	if at := "columns." + column + ".value"; c.Has(at) {
		return at
	}
	return "columns." + column
}

// document is a line of json.
func (e *encoding) document(c *config.Component, s *Sink) {
	e.value, e.fields = c.CompileDocument(s.Value, s.Map, "file.raw")
	if len(s.Columns) > 0 {
		c.Problem("columns", "file.columns", "columns belong to csv and parquet, and the format is json", "give map:, or format: parquet")
	}
}

// table is a row of csv or parquet.
func (e *encoding) table(c *config.Component, s *Sink, in *stream.Schema) {
	for i := range s.Columns {
		col := &s.Columns[i]
		p := c.Compile(valueOf(c, col.Key), col.Value.Value, expr.Env{This: in})
		if p == nil {
			e.whole = false
			continue
		}
		out := file.Column{Name: col.Key}
		if s.Format == string(file.Parquet) {
			if !typeOf(c, col, p, &out) {
				e.whole = false
				continue
			}
		} else if col.Value.Type != "" {
			c.Problem("columns."+col.Key+".type", "file.columns", "csv writes text: its columns have no types", "remove type")
		}
		e.columns, e.cells = append(e.columns, out), append(e.cells, p)
	}
}

// typeOf settles the type of a column of a Parquet file.
func typeOf(c *config.Component, col *config.Pair[Column], p *expr.Program, out *file.Column) bool {
	if col.Value.Type == "" {
		kind, ok := known[p.Type().Kind]
		if !ok {
			if c.Known("inputs") {
				c.Problem("columns."+col.Key, "file.columns", fmt.Sprintf("the type of %s is not known before a record is seen", col.Value.Value),
					"say it: { value: "+string(col.Value.Value)+", type: string }")
			}
			return false
		}
		col.Value.Type = string(kind)
	}
	t, err := file.ParseType(col.Value.Type)
	if err != nil {
		c.Problem("columns."+col.Key+".type", "file.columns", err.Error(), "write boolean, int64, double, decimal(precision, scale), string, json, timestamp or date")
		return false
	}
	out.Type = t
	return true
}

// known are the types that an expression's own decides.
var known = map[stream.Kind]file.TypeKind{stream.Bool: file.Boolean, stream.Int: file.Int64, stream.String: file.String,
	stream.List: file.JSONText, stream.Object: file.JSONText}

// encoder returns what makes the encoder of one writer, nil when nothing is to be done.
func (e *encoding) encoder() func() file.Encoder {
	if len(e.partitions) == 0 && e.value == nil && e.fields == nil && len(e.cells) == 0 {
		return nil
	}
	return func() file.Encoder { return (&writing{encoding: e, ev: expr.NewEvaluator()}).encode }
}

// writing is an encoding at work in one task.
type writing struct {
	*encoding
	ev  *expr.Evaluator
	buf []byte
}

func (w *writing) encode(r *stream.Record, row *file.Row) error {
	for _, p := range w.partitions {
		v, err := w.ev.Value(p, r)
		if err != nil {
			return err
		}
		row.Partition(v)
	}
	if len(w.cells) > 0 {
		return w.table(r, row)
	}
	var err error
	switch {
	case w.fields != nil:
		w.buf, err = w.ev.AppendFields(w.buf[:0], w.fields, r)
	case w.value != nil:
		w.buf, err = w.ev.AppendJSON(w.buf[:0], w.value, r)
	default:
		row.Whole(r)
		return nil
	}
	row.JSON(w.buf)
	return err
}

func (w *writing) table(r *stream.Record, row *file.Row) error {
	for _, p := range w.cells {
		v, err := w.ev.Value(p, r)
		if err != nil {
			return err
		}
		row.Value(v)
	}
	return nil
}
