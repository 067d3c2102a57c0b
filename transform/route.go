package transform

import (
	"context"

	"etl/expr"
	"etl/stream"
)

// Case is an output of a route and the condition under which it takes a record.
type Case struct {
	Output stream.Tag
	// When is compiled with Want: stream.Bool.
	When *expr.Program
}

// Route sends each record to the output of the first case that takes it. Outputs
// are side outputs; nothing goes to the main one.
type Route struct {
	Cases []Case
	// Default takes what no case takes; "" rejects it, so that nothing is lost
	// silently.
	Default stream.Tag
}

// OutputSchema returns in: a route changes nothing.
func (Route) OutputSchema(in *stream.Schema) (*stream.Schema, error) { return in, nil }

// Outputs returns the outputs, each once, in order.
func (r Route) Outputs() (out []stream.Tag) {
	seen := map[stream.Tag]bool{"": true}
	for _, t := range append(tags(r.Cases), r.Default) {
		if !seen[t] {
			seen[t], out = true, append(out, t)
		}
	}
	return out
}

func tags(cases []Case) (out []stream.Tag) {
	for _, c := range cases {
		out = append(out, c.Output)
	}
	return out
}

// New returns the operator for one task.
func (r Route) New() Operator {
	o := &route{Route: r, ev: expr.NewEvaluator(), outputs: r.Outputs()}
	index := map[stream.Tag]int{}
	for i, t := range o.outputs {
		index[t] = i
	}
	for _, c := range r.Cases {
		o.to = append(o.to, index[c.Output])
	}
	o.rest = -1
	if r.Default != "" {
		o.rest = index[r.Default]
	}
	o.batches = make([]*stream.Batch, len(o.outputs))
	return o
}

type route struct {
	stateless
	Route
	ev      *expr.Evaluator
	outputs []stream.Tag
	to      []int // the output of each case
	rest    int   // the output of the default, -1 for none
	batches []*stream.Batch
}

// Process implements Operator. A batch that goes to one output as a whole is passed
// on itself.
func (o *route) Process(_ context.Context, b *stream.Batch, out Output) error {
	whole := -1 // the output of all records so far; -2 for several
	for i := range b.Records {
		r := &b.Records[i]
		at, err := o.choose(r)
		if err != nil {
			out.Reject(*r, err)
			at = -1
		}
		if i == 0 {
			whole = at
		}
		if at != whole && whole != -2 {
			o.split(b, whole, i)
			whole = -2
		}
		if whole == -2 && at >= 0 {
			o.batch(b, at).Append(*r)
		}
	}
	if whole >= 0 {
		b.Retain()
		out.SideBatch(o.outputs[whole], b)
		return nil
	}
	for i, d := range o.batches {
		if d != nil {
			out.SideBatch(o.outputs[i], d)
			o.batches[i] = nil
		}
	}
	return nil
}

// choose returns the output of r.
func (o *route) choose(r *stream.Record) (int, error) {
	for i := range o.Cases {
		ok, err := o.ev.Bool(o.Cases[i].When, r)
		if err != nil {
			return -1, err
		}
		if ok {
			return o.to[i], nil
		}
	}
	if o.rest < 0 {
		return -1, stream.Errorf(stream.Failed, "route.no_case", "route", expr.Where(r), "no case takes the record, and there is no default")
	}
	return o.rest, nil
}

// split begins the batches of several outputs: the first n records went to one.
func (o *route) split(b *stream.Batch, at, n int) {
	if at < 0 {
		return
	}
	d := o.batch(b, at)
	d.Records = append(d.Records, b.Records[:n]...)
}

func (o *route) batch(b *stream.Batch, at int) *stream.Batch {
	if o.batches[at] == nil {
		o.batches[at] = b.Derive(b.Schema)
	}
	return o.batches[at]
}
