package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"etl/stream"
)

// Lag is how far one partition of a source is behind.
type Lag struct {
	Topic     string
	Partition int32
	// NextOffset is the position, End up to where the partition could be read when
	// that was seen last, Records the offsets between: at least the records.
	NextOffset, End, Records int64
	// Timestamp is that of the last record read, in ms since 1970; -1 for none.
	Timestamp int64
}

// ObserveLag has a reader's lag published until another reader of the same subtask
// comes. lag may be called at any time, from any goroutine.
func (t *Telemetry) ObserveLag(task stream.TaskID, lag func() []Lag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lags[task] = lag
}

func (t *Telemetry) observeLags(ob metric.Observer, o *observed) {
	now := t.o.Clock.Now().UnixMilli()
	for task, lag := range t.lagFuncs() {
		for _, l := range lag() {
			attrs := t.metrics.attrs(attribute.String("component", string(task.UID)), attribute.String("topic", l.Topic), attribute.Int("partition", int(l.Partition)))
			ob.ObserveInt64(o.lag, l.Records, attrs)
			ob.ObserveInt64(o.position, l.NextOffset, attrs)
			if l.Records > 0 && l.Timestamp >= 0 {
				ob.ObserveFloat64(o.lagTime, float64(max(now-l.Timestamp, 0))/1000, attrs)
			}
		}
	}
}

// lagFuncs yields the functions in order, without holding the lock while they run.
func (t *Telemetry) lagFuncs() func(yield func(stream.TaskID, func() []Lag) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]stream.TaskID, 0, len(t.lags))
	funcs := map[stream.TaskID]func() []Lag{}
	for id, f := range t.lags {
		ids, funcs[id] = append(ids, id), f
	}
	slices.SortFunc(ids, stream.CompareTasks)
	return func(yield func(stream.TaskID, func() []Lag) bool) {
		for _, id := range ids {
			if !yield(id, funcs[id]) {
				return
			}
		}
	}
}

// observeSplits publishes where the last checkpoint stands. The lock is held.
func (t *Telemetry) observeSplits(ob metric.Observer, o *observed) {
	for uid, splits := range t.splits {
		for i := range splits {
			s := &splits[i]
			ob.ObserveInt64(o.checkpointed, s.NextOffset, t.metrics.attrs(attribute.String("component", string(uid)),
				attribute.String("topic", s.Topic), attribute.Int("partition", int(s.Partition))))
		}
	}
}
