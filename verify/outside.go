package verify

import (
	"context"
	"slices"

	"etl/stream"
)

// place is where the rows of a sink lie that writes no topic: files, a table, what an
// endpoint has written down. Its rows are read as documents of JSON in one form for each
// value, whatever the place holds, and come to the target as records without a key.
type place interface {
	// read adds all rows to the target.
	read(ctx context.Context, c *recounting, t *target) error
	// locate puts into a finding where in the place it lies.
	locate(f *Finding)
	// compared says what of each row is.
	compared() string
	// unordered says why the rows have no order, "" when they have one.
	unordered() string
	// sortBy has rows read in the order of a number among their fields.
	sortBy(field string)
}

// maker computes what a place has to hold of a record, in the form in which it is read.
type maker interface {
	row(s *sinkPlan, rec *stream.Record) (value []byte, headers []stream.Header, err error)
	// showsKeys reports whether these fields give the key of an aggregate back as it was.
	showsKeys(names []string) bool
}

// putInOrder deals with a place whose rows have no order. Those of no aggregate are
// compared without one. The running results of an aggregate need it, and have it where
// they show a plain count: that rises by one with every record of a key.
func (t *target) putInOrder() {
	for _, f := range t.feeds {
		f.ordered = false
	}
	for _, k := range t.keyed {
		count := k.countField()
		if count == "" || len(t.keyed) > 1 || slices.ContainsFunc(k.feed.chain, func(n *node) bool { return n.typ == "flat_map" }) {
			t.opaque = "rows have no order there, and those of " + k.agg.name + " do not show one: give it a result of type count, without of and where, and pass that on"
			return
		}
		k.feed.ordered = true
		t.place.sortBy(count)
	}
}

// countField returns the field of the rows that holds a plain count, "" for none.
func (k *keyedRows) countField() string {
	for i, it := range k.agg.items {
		if it.op == "count" && it.of == nil && it.where == nil {
			if name := k.feed.shown[len(k.agg.keys)+i]; name != "" {
				return name
			}
		}
	}
	return ""
}

// packed is a place among several lists, as an offset: rows that are read in another order
// than they lie in keep it.
func packedPlace(list, at int64) int64 { return list<<48 | at }

func unpackedPlace(offset int64) (list, at int64) { return offset >> 48, offset & (1<<48 - 1) }

// locate tells where in places the findings lie.
func (c *recounting) locate() {
	for i := range c.r.Examples {
		for _, t := range c.targets {
			if t.place != nil && c.r.Examples[i].Topic == t.topic {
				t.place.locate(&c.r.Examples[i])
			}
		}
	}
}
