package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"etl/stream"
)

// phases are the states of etl_pipeline_state.
var phases = []string{"starting", "restoring", "running", "draining", "restarting", "failed", "stopped", "fenced"}

// observed are the instruments that are read when somebody collects.
type observed struct {
	in, out, bytesIn, bytesOut, errors, letters, spilled                                                                metric.Int64ObservableCounter
	busy, blocked, idle, watermark, completed, lagTime, queue, oldest, oldestLogged                                     metric.Float64ObservableGauge
	keys, bytes, uncommitted, inProgress, lastID, state, info, build, lag, position, checkpointed, transactions, logged metric.Int64ObservableGauge
}

// register makes the observable instruments and the one callback that reads all
// counters.
func (t *Telemetry) register(m metric.Meter) error {
	o, mk := observed{}, &maker{Meter: m}
	var all []metric.Observable
	counter := func(to *metric.Int64ObservableCounter, name, unit, text string) {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		mk.note(err)
		*to, all = c, append(all, c)
	}
	gauge := func(to *metric.Int64ObservableGauge, name, unit, text string) {
		g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		mk.note(err)
		*to, all = g, append(all, g)
	}
	share := func(to *metric.Float64ObservableGauge, name, unit, text string) {
		g, err := m.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		mk.note(err)
		*to, all = g, append(all, g)
	}
	counter(&o.in, "etl.component.records_in", "{record}", "records taken")
	counter(&o.out, "etl.component.records_out", "{record}", "records emitted")
	counter(&o.bytesIn, "etl.component.bytes_in", "By", "bytes of keys and values taken")
	counter(&o.bytesOut, "etl.component.bytes_out", "By", "bytes of keys and values emitted")
	counter(&o.errors, "etl.component.errors", "{record}", "records that could not be processed, by what became of them")
	counter(&o.letters, "etl.dead_letter.records", "{record}", "records that became dead letters")
	counter(&o.spilled, "etl.state.spilled", "{entry}", "entries of keyed state moved from memory to disk")
	share(&o.busy, "etl.component.busy", "1", "share of time spent processing")
	share(&o.blocked, "etl.component.backpressured", "1", "share of time spent waiting for the components behind")
	share(&o.idle, "etl.component.idle", "1", "share of time spent waiting for input")
	share(&o.watermark, "etl.component.watermark_timestamp", "s", "event time up to which all has been seen, as a time since 1970")
	share(&o.completed, "etl.checkpoint.last_completed_timestamp", "s", "when the last checkpoint was published, as a time since 1970")
	gauge(&o.lastID, "etl.checkpoint.last_completed_id", "", "its id: attempt * 2^32 + number")
	gauge(&o.inProgress, "etl.checkpoint.in_progress", "", "checkpoints that are neither confirmed nor aborted")
	share(&o.queue, "etl.component.queue_fill", "1", "share of the room for what waits for the component that is taken, of its fullest input")
	gauge(&o.keys, "etl.state.keys", "", "keys in memory")
	gauge(&o.bytes, "etl.state.size", "By", "memory of keyed state")
	gauge(&o.uncommitted, "etl.sink.uncommitted_records", "", "records that readers cannot see yet")
	gauge(&o.transactions, "etl.sink.transactions", "", "transactions that have not ended")
	share(&o.oldest, "etl.sink.oldest_transaction_age", "s", "how long ago the oldest transaction that has not ended began")
	gauge(&o.logged, "etl.sink.wal_size", "By", "rows in checkpoint storage that are not delivered")
	share(&o.oldestLogged, "etl.sink.wal_oldest_age", "s", "how long ago the oldest rows that are not delivered came to the sink")
	gauge(&o.lag, "etl.source.lag_records", "", "offsets between the position and the last stable offset: at least the records that wait")
	share(&o.lagTime, "etl.source.lag", "s", "how long ago the last record read was written, while there are more to read")
	gauge(&o.position, "etl.source.position_offset", "", "the next offset to read")
	gauge(&o.checkpointed, "etl.source.checkpointed_offset", "", "the next offset to read after a restart from the last checkpoint")
	gauge(&o.state, "etl.pipeline.state", "", "1 for the state the job is in")
	gauge(&o.info, "etl.pipeline.info", "", "1")
	gauge(&o.build, "etl.build.info", "", "1")
	if mk.err != nil {
		return mk.err
	}
	_, err := m.RegisterCallback(func(_ context.Context, ob metric.Observer) error {
		t.observeLags(ob, &o)
		t.observe(ob, &o)
		return nil
	}, all...)
	return err
}

func (t *Telemetry) observe(ob metric.Observer, o *observed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Clock.Now()
	ids := make([]stream.TaskID, 0, len(t.tasks))
	for id := range t.tasks {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, stream.CompareTasks)
	for _, id := range ids {
		t.observeTask(ob, o, id, now)
	}
	t.observeLetters(ob, o)
	t.observeSplits(ob, o)
	t.observeTransactions(ob, o, now)
	all := t.metrics.attrs()
	ob.ObserveInt64(o.inProgress, int64(len(t.open)), all)
	if !t.completed.IsZero() {
		ob.ObserveFloat64(o.completed, float64(t.completed.UnixMilli())/1000, all)
		ob.ObserveInt64(o.lastID, int64(t.completedID), all)
	}
	for _, p := range phases {
		is := int64(0)
		if p == t.phase {
			is = 1
		}
		ob.ObserveInt64(o.state, is, t.metrics.attrs(attribute.String("state", p)))
	}
	ob.ObserveInt64(o.info, 1, t.metrics.attrs(attribute.String("version", t.o.Version), attribute.String("guarantee", t.o.Guarantee)))
	ob.ObserveInt64(o.build, 1, buildInfo(t.o.Version))
}

func (t *Telemetry) observeTask(ob metric.Observer, o *observed, id stream.TaskID, now time.Time) {
	x := t.tasks[id]
	x.sample(now)
	n, c := x.counts(), x.current
	kv := []attribute.KeyValue{attribute.String("component", string(id.UID)), attribute.Int("subtask", id.Subtask)}
	attrs := t.metrics.attrs(kv...)
	ob.ObserveInt64(o.in, n.in, attrs)
	ob.ObserveInt64(o.out, n.out, attrs)
	ob.ObserveInt64(o.bytesIn, n.bytesIn, attrs)
	ob.ObserveInt64(o.bytesOut, n.bytesOut, attrs)
	t.observeRejects(ob, o, n, kv)
	if x.busy+x.blocked+x.idled > 0 { // the first component of a chain keeps the time of all
		ob.ObserveFloat64(o.busy, x.busy, attrs)
		ob.ObserveFloat64(o.blocked, x.blocked, attrs)
		ob.ObserveFloat64(o.idle, x.idled, attrs)
	}
	if c.QueueFill != nil {
		ob.ObserveFloat64(o.queue, c.QueueFill(), attrs)
	}
	if w := c.Watermark.Load(); w != 0 {
		ob.ObserveFloat64(o.watermark, float64(w)/1000, attrs)
	}
	switch {
	case x.kind == "sink":
		ob.ObserveInt64(o.uncommitted, c.Uncommitted.Load(), attrs)
	case c.StateKeys.Load() > 0:
		ob.ObserveInt64(o.keys, c.StateKeys.Load(), attrs)
		ob.ObserveInt64(o.bytes, c.StateBytes.Load(), attrs)
		ob.ObserveInt64(o.spilled, n.spilled, attrs)
	}
}
