package postgres

import (
	"strings"
	"sync/atomic"

	"etl/config"
	"etl/expr"
	"etl/pipeline"
	"etl/sink/sqltxn"
	"etl/stream"
	"etl/transform"
)

// columns say how a record becomes a row. They are shared; encoders are not.
type columns struct {
	names    []string // as the file has them
	key      []string
	programs []*expr.Program // those of the key first, in its order: sqltxn.KeyFirst
	order    []string        // the names of programs
	texts    map[string]string
	// target is the table, once a look at the server has told its types.
	target atomic.Pointer[sqltxn.Target]
}

// newColumns compiles the expressions of a sink.
func newColumns(c *config.Component, s *Sink) *columns {
	out := &columns{names: s.Columns.Keys(), key: s.Key, texts: map[string]string{}}
	compiled := map[string]*expr.Program{}
	for _, f := range c.CompileFields("columns", s.Columns, expr.Env{This: c.Schema()}) {
		compiled[f.Name] = f.Value
	}
	for _, f := range s.Columns {
		out.texts[f.Key] = string(f.Value)
	}
	for _, name := range sqltxn.KeyFirst(out.names, out.key) {
		if p := compiled[name]; p != nil {
			out.order, out.programs = append(out.order, name), append(out.programs, p)
		}
	}
	return out
}

// whole reports whether every column has its program: what is missing was reported.
func (cs *columns) whole() bool { return len(cs.programs) == len(cs.names) }

// fits returns what the types of expressions, where they are known, and those of the
// columns of a table have against each other.
func (cs *columns) fits(g *sqltxn.Target) (errs []error) {
	for i, col := range g.Columns {
		if err := col.Type.Accepts(cs.programs[i].Type().Kind); err != nil {
			errs = append(errs, stream.Errorf(stream.BadConfig, "postgres.type", "", col.Name, "%w", err).
				WithFix("mend the expression, or the type of the column"))
		}
	}
	return errs
}

// encoder returns the encoder of one writer. A record without a value deletes the row of
// its key, so that only the key is computed for it.
func (cs *columns) encoder() sqltxn.Encoder {
	ev := expr.NewEvaluator()
	return func(r *stream.Record, row *sqltxn.Row) error {
		programs := cs.programs
		if r.Value == nil {
			programs = programs[:len(cs.key)]
		}
		for _, p := range programs {
			if err := encode(ev, p, r, row); err != nil {
				return err
			}
		}
		if r.Value == nil {
			row.Delete()
		}
		return nil
	}
}

// encode gives the row the next value.
func encode(ev *expr.Evaluator, p *expr.Program, r *stream.Record, row *sqltxn.Row) error {
	v, err := ev.Value(p, r)
	if err != nil {
		return err
	}
	if v.IsNull() || !row.NextIsArray() {
		row.Value(v)
		return nil
	}
	row.List(func(add func(expr.Value) error) error {
		return ev.Each(p, r, func() error { return add(ev.It()) })
	})
	return nil
}

// distribution sends the records of a key to one subtask; nil without a key.
func (cs *columns) distribution() *pipeline.Key {
	if len(cs.key) == 0 || !cs.whole() || len(cs.order) < len(cs.key) {
		return nil
	}
	texts := make([]string, len(cs.key))
	for i, k := range cs.key {
		texts[i] = cs.texts[k]
	}
	return &pipeline.Key{Text: strings.Join(texts, ", "), New: cs.keyer}
}

// keyer returns what computes keys for one task. Two texts may be one value of a column:
// a uuid in capitals, a time in another zone. So keys are compared as the column stores
// them, once its type is known.
func (cs *columns) keyer() pipeline.Keyer {
	ev, keys := expr.NewEvaluator(), cs.programs[:len(cs.key)]
	return transform.KeyFunc(func(dst []byte, r *stream.Record) ([]byte, error) {
		if g := cs.target.Load(); g != nil {
			if out, ok := stored(ev, keys, g, dst, r); ok {
				return out, nil
			}
		}
		return ev.AppendKey(dst, keys, r)
	})
}

// stored appends the key as the table's columns store it. A value that does not fit is the
// sink's to refuse.
func stored(ev *expr.Evaluator, keys []*expr.Program, g *sqltxn.Target, dst []byte, r *stream.Record) ([]byte, bool) {
	for i, p := range keys {
		v, err := ev.Value(p, r)
		if err != nil || v.IsNull() || g.Columns[i].Type.IsArray() {
			return nil, false
		}
		if dst, err = g.Columns[i].Type.Append(dst, v, true); err != nil {
			return nil, false
		}
	}
	return dst, true
}
