package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

// check compares a target with what was recomputed.
func (c *recounting) check(t *target) {
	if t.opaque != "" {
		for _, f := range t.feeds {
			if !slices.Contains(c.r.LeftOut, f.to.name) {
				c.r.LeftOut = append(c.r.LeftOut, f.to.name)
			}
		}
		c.r.notChecked("%s: everything but that its rows can be read: %s", t.topic, t.opaque)
		c.r.Sinks = append(c.r.Sinks, t.res)
		return
	}
	if t.hasPlainFeed() || len(t.plain) > 0 {
		t.checkPlain(c.r, c.o)
	}
	for _, k := range t.keyed {
		switch {
		case k.agg.behind != "":
			t.checkNested(k, c.r)
		default:
			t.checkKeyed(k, c.r, c.o, func(done, total int64) { c.o.Progress(Progress{"check " + k.agg.name, done, total}) })
		}
	}
	for _, f := range t.feeds {
		if f.from.agg == nil {
			c.sayPlain(t, f)
		}
	}
	c.r.Sinks = append(c.r.Sinks, t.res)
}

func (t *target) hasPlainFeed() bool {
	for _, f := range t.feeds {
		if f.from.agg == nil {
			return true
		}
	}
	return false
}

func (c *recounting) sayPlain(t *target, f *feed) {
	what := "key, value, headers and time of each row, and how often it is there"
	switch {
	case t.place != nil:
		what = t.place.compared()
	case t.appendTime:
		what = "key, value and headers of each row, and how often it is there"
		c.r.notChecked("%s: the time of rows: the topic replaces it (message.timestamp.type)", t.topic)
	}
	switch {
	case f.ordered:
		what += "; in each partition the order of every source partition"
	case t.place != nil && t.place.unordered() != "":
		c.r.notChecked("%s: %s: order: %s", t.topic, f, t.place.unordered())
	default:
		c.r.notChecked("%s: %s: order: the way deals records out over another number of subtasks and promises none", t.topic, f)
	}
	c.r.checked("%s: %s: %s", t.topic, f, what)
}

// sayRead writes down what reading a target came across.
func (c *recounting) sayRead(ctx context.Context, k *cluster, t *target) {
	for p, s := range t.scanned {
		b := t.bounds[p]
		name := partitionName(t.topic, int32(p))
		c.r.found(&t.res, s.hidden, Finding{Kind: Uncommitted, Topic: t.topic, Partition: int32(p), Offset: b.stable, Why: "not visible yet: a transaction is open from here on"})
		if b.stable < b.end {
			c.r.Open = append(c.r.Open, Open{Topic: t.topic, Partition: int32(p), Stable: b.stable, End: b.end, Producers: k.producers(ctx, t.topic, int32(p))})
		}
		if s.holes > 0 {
			c.r.notChecked("%s: %s offsets that hold nothing (compaction)", name, thousands(s.holes))
		}
		if s.unmarked > 0 {
			c.r.notChecked("%s: %s rows whose transaction left no control record count as committed", name, thousands(s.unmarked))
		}
		if b.start > 0 {
			c.r.notChecked("%s: rows before offset %d are deleted", name, b.start)
		}
	}
	aborted := int64(0)
	for _, s := range t.scanned {
		aborted += s.aborted
	}
	c.r.checked("%s: all offsets up to the end, control records followed: %s rows visible, %s aborted", t.topic, thousands(t.res.Rows), thousands(aborted))
	switch {
	case t.keysSeen == 0:
	case t.misplaced == 0:
		c.r.checked("%s: every key lies in the partition that its hash names", t.topic)
	default:
		c.r.notChecked("%s: %s rows do not lie where their key's hash puts them among %d partitions: the topic may have grown", t.topic, thousands(t.misplaced), len(t.bounds))
	}
}

// producers names those with an open transaction in a partition, as far as the
// brokers tell.
func (c *cluster) producers(ctx context.Context, topic string, partition int32) (out []string) {
	var set kadm.TopicsSet
	set.Add(topic, partition)
	described, err := c.adm.DescribeProducers(ctx, set)
	if err != nil {
		return nil
	}
	for _, p := range described[topic].Partitions[partition].ActiveProducers.Sorted() {
		if p.CurrentTxnStartOffset >= 0 {
			out = append(out, fmt.Sprintf("producer %d epoch %d from offset %d", p.ProducerID, p.ProducerEpoch, p.CurrentTxnStartOffset))
		}
	}
	return out
}

// sayRejected writes down which records components could not process.
func (c *recounting) sayRejected() {
	for _, n := range c.order {
		switch {
		case n.rejected == 0:
		case n.skip:
			c.r.checked("%s: %s records that it cannot process are left out (on_error: skip)", n.name, thousands(n.rejected))
		default:
			c.r.notChecked("%s: cannot process %s records, and stops at the first of them (on_error: fail); the recount leaves them out: %v", n.name, thousands(n.rejected), n.first)
		}
	}
}

// sayLeftOut writes down which sinks were not looked at.
func (c *recounting) sayLeftOut() {
	for _, name := range c.plan.leftOut {
		c.r.leftOut(name, "%s: everything: an endpoint cannot be asked what it has; where it writes that down, --received %s=FILE compares it", name, name)
	}
	for _, name := range c.letters {
		c.r.leftOut(name, "%s: everything: records that became dead letters are expected nowhere else, and not looked for here", name)
	}
}
