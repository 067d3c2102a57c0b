package transform

import (
	"etl/expr"
	"etl/expr/decimal"
	"etl/expr/jsondoc"
	"etl/internal/invariant"
	"etl/state"
	"etl/stream"
)

// results computes an aggregate for one task.
type results struct {
	Aggregate
	ev    *expr.Evaluator
	cells []cell
	entry []byte
	ints  []bool   // which results are counts or sums of ints
	heads []string // {"key": and ,"name":
	keys  jsondoc.Doc
}

func newResults(a Aggregate) *results {
	r := &results{Aggregate: a, ev: expr.NewEvaluator(), cells: make([]cell, len(a.Aggregations), len(a.Aggregations)+1)}
	if a.Versioned {
		r.cells = append(r.cells, cell{}) // the last one: how many records the key had
	}
	for _, g := range a.Aggregations {
		r.ints = append(r.ints, g.resultType().Kind == stream.Int)
	}
	open := "{"
	for _, name := range append(a.keyNames(), a.names()...) {
		r.heads = append(r.heads, open+string(jsondoc.AppendString(nil, name))+":")
		open = ","
	}
	return r
}

// update computes all results of a record before it changes any.
func (r *results) update(rec *stream.Record, ref state.Ref) (changed bool, err error) {
	old, known := ref.Get()
	if !known {
		clear(r.cells)
	} else {
		r.decode(old)
	}
	changed = !known
	for i := range r.Aggregations {
		c, err := r.apply(i, rec)
		if err != nil {
			return false, err
		}
		changed = changed || c
	}
	if r.Versioned {
		v := &r.cells[len(r.Aggregations)]
		v.tag, v.num = shortNumber, v.num+1
	}
	if changed || r.Versioned {
		r.entry = appendCells(r.entry[:0], r.cells)
		ref.Set(r.entry)
	}
	return changed, nil
}

// decode reads an entry. That its layout is this one was settled by the serializer's
// name when the state was restored.
func (r *results) decode(entry []byte) {
	if !decodeCells(entry, r.cells) {
		invariant.Check(false, "aggregate: an entry of %d bytes does not hold %s", len(entry), r.serializer())
	}
}

// apply computes one result.
func (r *results) apply(i int, rec *stream.Record) (changed bool, err error) {
	g, c := &r.Aggregations[i], &r.cells[i]
	if g.Where != nil {
		if ok, err := r.ev.Bool(g.Where, rec); err != nil || !ok {
			return false, err
		}
	}
	if g.Of == nil {
		return true, g.add(c, decimal.Int(1), r.ints[i], rec)
	}
	v, err := r.ev.Value(g.Of, rec)
	if err != nil {
		return false, err
	}
	switch {
	case g.Op == Count && v.IsNull():
		return false, nil
	case g.Op == Count:
		return true, g.add(c, decimal.Int(1), r.ints[i], rec)
	case v.IsNull():
		return false, g.reject(rec, CodeNull, "the value is null: give a default with ??, or a where")
	case g.Op == Sum:
		n, ok := v.Number()
		if !ok {
			return false, g.reject(rec, CodeKind, "the value is %s, not a number", v.Kind())
		}
		return true, g.add(c, n, r.ints[i], rec)
	}
	return g.extreme(c, v, rec)
}

// add adds to a count or sum, which stays in 64 bits if it is one of ints.
func (g *Aggregation) add(c *cell, n decimal.Number, ints bool, rec *stream.Record) error {
	sum, err := decimal.Add(c.number(), n)
	switch {
	case err != nil:
		return g.reject(rec, CodeOverflow, "the sum has more than %d digits", decimal.MaxDigits)
	case ints && !sum.IsInt():
		return g.reject(rec, CodeOverflow, "the sum of ints has more than 64 bits")
	}
	c.setNumber(sum)
	return nil
}

// extreme keeps the least or greatest value.
func (g *Aggregation) extreme(c *cell, v expr.Value, rec *stream.Record) (changed bool, err error) {
	old := c.value()
	if !old.IsNull() {
		order, ok := expr.Compare(v, old)
		if !ok {
			return false, g.reject(rec, CodeKind, "the value is %s, the values before were %s", v.Kind(), c.kindOf())
		}
		if g.Op == Min {
			order = -order
		}
		if order < 0 || order == 0 && !shorter(v, old) {
			return false, nil
		}
	}
	if !c.set(v) {
		return false, g.reject(rec, CodeKind, "the value is %s, neither a number nor a string", v.Kind())
	}
	return true, nil
}

// shorter reports whether a number has fewer digits than an equal one.
func shorter(v, old expr.Value) bool {
	a, ok := v.Number()
	b, _ := old.Number()
	return ok && len(a.Append(nil)) < len(b.Append(nil))
}

func (g *Aggregation) reject(rec *stream.Record, code, format string, args ...any) error {
	return stream.Errorf(stream.Failed, code, "aggregate "+g.Name, expr.Where(rec), format, args...)
}

// output appends the object of a key.
func (r *results) output(dst []byte, o *stream.Record, key, value []byte, _ *stream.Record) []byte {
	r.decode(value)
	if r.Versioned {
		o.Version = uint64(r.cells[len(r.Aggregations)].num)
	}
	heads := r.heads
	if len(r.Key) == 1 {
		dst = append(append(dst, heads[0]...), key...)
		heads = heads[1:]
	} else {
		dst, heads = r.appendKeys(dst, key)
	}
	for i := range r.Aggregations {
		dst = append(dst, heads[i]...)
		dst = r.Aggregations[i].appendResult(dst, &r.cells[i])
	}
	return append(dst, '}')
}

// appendKeys appends the fields of a list of keys.
func (r *results) appendKeys(dst, key []byte) ([]byte, []string) {
	err := r.keys.Parse(key, jsondoc.Lenient)
	invariant.Check(err == nil, "aggregate: a key is not the list that a Keyer makes: %v", err)
	n, ok := r.keys.First(0)
	for i := 0; ok; i++ {
		dst = append(append(dst, r.heads[i]...), r.keys.Raw(n)...)
		n, ok = r.keys.Next(0, n)
	}
	return dst, r.heads[len(r.Key):]
}

func (g *Aggregation) appendResult(dst []byte, c *cell) []byte {
	if c.tag == noValue && (g.Op == Count || g.Op == Sum) {
		return append(dst, '0')
	}
	if c.tag == shortNumber {
		return c.number().Append(dst)
	}
	return c.value().AppendJSON(dst)
}
