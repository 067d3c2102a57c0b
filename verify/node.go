package verify

import (
	"etl/expr"
	"etl/stream"
)

// node is a component as it is recomputed.
type node struct {
	name        string
	typ         string
	inputs      []string
	skip        bool // on_error
	parallelism int
	in, out     *stream.Schema

	ev    *expr.Evaluator
	where *expr.Program
	each  *expr.Program
	// fields are the expressions of map; names beside them.
	fields   *expr.Fields
	names    []string
	programs []*expr.Program
	buf      []byte
	made     [][]byte // values of flat_map, before any is passed on

	decode func(*stream.Record) error // of sources
	agg    *aggregate
	sink   *sinkPlan
	source *Source

	rejected int64
	first    error // the first rejection
}

// reject counts a record that the component cannot process.
func (n *node) reject(err error) {
	if n.rejected++; n.rejected == 1 {
		n.first = err
	}
}

// apply passes to yield what the component makes of rec. The record and its bytes
// are valid during the call.
func (n *node) apply(rec *stream.Record, yield func(*stream.Record)) {
	switch n.typ {
	case "filter":
		ok, err := n.ev.Bool(n.where, rec)
		if err != nil {
			n.reject(err)
		} else if ok {
			yield(rec)
		}
	case "map":
		n.mapValue(rec, yield)
	case "flat_map":
		n.flatMap(rec, yield)
	default:
		yield(rec)
	}
}

func (n *node) mapValue(rec *stream.Record, yield func(*stream.Record)) {
	var value []byte
	if rec.Value != nil {
		v, err := n.ev.AppendFields(n.buf[:0], n.fields, rec)
		if err != nil {
			n.reject(err)
			return
		}
		n.buf, value = v, v
	}
	yield(withValue(rec, value))
}

// flatMap makes all values before it passes the first one on: a record of which one
// element fails yields nothing.
func (n *node) flatMap(rec *stream.Record, yield func(*stream.Record)) {
	n.made = n.made[:0]
	err := n.ev.Each(n.each, rec, func() error { return n.element(rec) })
	if err != nil {
		n.reject(err)
		return
	}
	for _, value := range n.made {
		yield(withValue(rec, value))
	}
}

func (n *node) element(rec *stream.Record) error {
	if n.where != nil {
		if ok, err := n.ev.Bool(n.where, rec); err != nil || !ok {
			return err
		}
	}
	var value []byte
	if n.fields == nil {
		value = n.ev.It().AppendJSON(nil)
	} else {
		v, err := n.ev.AppendFields(nil, n.fields, rec)
		if err != nil {
			return err
		}
		value = v
	}
	n.made = append(n.made, value)
	return nil
}

// withValue returns a copy of rec with another value.
func withValue(rec *stream.Record, value []byte) *stream.Record {
	c := *rec
	c.Value, c.Doc, c.Pos = value, nil, -1
	return &c
}
