package verify

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// readSink reads all rows of a target that are visible.
func (c *recounting) readSink(ctx context.Context, t *target) error {
	k, err := c.cluster(t.conn)
	if err != nil {
		return err
	}
	if t.bounds, err = k.measure(ctx, t.topic); err != nil {
		return err
	}
	t.sums = make([]uint64, len(t.bounds))
	p := c.progress("read "+t.topic, t.bounds)
	for n, b := range t.bounds {
		from := b.start
		if at, ok := c.o.SinkFrom.at(t.topic, int32(n)); ok {
			from = max(from, at)
		}
		s := scan{c: k, topic: t.topic, partition: int32(n), from: from, to: b, emit: func(r *kgo.Record) error {
			p()
			t.add(r)
			return nil
		}}
		done, err := s.run(ctx)
		if err != nil {
			return err
		}
		t.scanned = append(t.scanned, done)
	}
	c.r.RecordsOut += t.res.Rows
	c.sayRead(ctx, k, t)
	if c.o.OneReader {
		c.r.notChecked("%s: reading by an ordinary consumer", t.topic)
		return nil
	}
	return c.readAgain(ctx, t)
}

// progress returns a function to call for each record.
func (c *recounting) progress(phase string, bs []bounds) func() {
	total, done := int64(0), int64(0)
	for _, b := range bs {
		total += b.end - b.start
	}
	return func() {
		if done++; done%65536 == 0 {
			c.o.Progress(Progress{phase, done, total})
		}
	}
}

// readSource reads the records of a source and sends them down all ways.
func (c *recounting) readSource(ctx context.Context, n *node) error {
	k, err := c.cluster(n.source.Conn)
	if err != nil {
		return err
	}
	for _, topic := range n.source.Topics {
		bs, err := k.measure(ctx, topic)
		if err != nil {
			return err
		}
		p := c.progress("read "+topic, bs)
		for part, b := range bs {
			if err := c.readSplit(ctx, k, n, topic, int32(part), b, p); err != nil {
				return err
			}
		}
	}
	if n.source.End == "latest" {
		c.r.notChecked("%s: where the job ended (end: latest): later records count as behind", n.name)
	}
	return nil
}

func (c *recounting) readSplit(ctx context.Context, k *cluster, n *node, topic string, part int32, b bounds, progress func()) error {
	s := scan{c: k, topic: topic, partition: part, from: b.start, to: b, uncommitted: n.source.Uncommitted}
	if at, ok := n.source.StartOffsets.at(topic, part); ok {
		s.from = max(at, b.start)
		if at < b.start {
			c.r.notChecked("%s: records before offset %d are deleted", partitionName(topic, part), b.start)
		}
	} else if b.start > 0 {
		c.r.notChecked("%s: records before offset %d are deleted, and may have been read", partitionName(topic, part), b.start)
	}
	if end, ok := n.source.EndOffsets.at(topic, part); ok && n.source.End == "offsets" {
		s.to.end, s.to.stable = min(end, s.to.end), min(end, s.to.stable)
	}
	until, limited := c.o.Until.at(topic, part)
	rec := &stream.Record{Topic: topic, Partition: part}
	s.emit = func(r *kgo.Record) error {
		progress()
		if !limited || r.Offset < until {
			c.r.RecordsIn++
		}
		*rec = stream.Record{Key: r.Key, Value: r.Value, Headers: kafkaconn.StreamHeaders(r.Headers), Timestamp: r.Timestamp.UnixMilli(),
			Topic: topic, Partition: part, Offset: r.Offset, Pos: -1}
		c.enter(n, rec)
		return nil
	}
	done, err := s.run(ctx)
	if done.unmarked > 0 {
		c.r.notChecked("%s: %s records whose transaction left no control record count as committed", partitionName(topic, part), thousands(done.unmarked))
	}
	return err
}

// enter sends a record into the pipeline.
func (c *recounting) enter(n *node, rec *stream.Record) {
	if err := n.decode(rec); err != nil {
		n.reject(err)
		return
	}
	c.roots[n].push(rec)
}

// push sends a record to everything that takes from a component.
func (s *step) push(rec *stream.Record) {
	for _, to := range s.next {
		switch {
		case to.feed == nil:
			to.n.apply(rec, to.push)
		case to.n.agg != nil:
			to.n.agg.take(to.feed, rec)
		case to.n.sink.last != nil:
			to.n.sink.last.expect(to.feed, rec)
		default:
			to.n.sink.target.expect(to.feed, rec)
		}
	}
}

// take stores an input.
func (a *aggregate) take(f *feed, rec *stream.Record) {
	group, contribution, ok := a.contribution(rec)
	if !ok {
		return
	}
	id, ok := a.groups[string(group)]
	if !ok {
		id = int32(len(a.keyed))
		g := string(group)
		a.groups[g] = id
		a.keyed = append(a.keyed, keyInputs{group: g, last: -1})
	}
	k := &a.keyed[id]
	k.last = a.inputs.add(input{contribution: contribution, prev: k.last, stream: a.seen.of(f, rec), ts: rec.Timestamp, offset: rec.Offset})
	k.count++
}
