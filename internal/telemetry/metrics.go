package telemetry

import (
	"context"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"etl/stream"
)

// metrics are the instruments for what happens rarely. What is counted per record
// lies in stream.Counters and is read by observe.
type metrics struct {
	pipeline attribute.KeyValue

	restarts, complete, fail, commits, unreported metric.Int64Counter
	duration, commitTime, writes, batches         metric.Float64Histogram
	sizes                                         metric.Int64Gauge
	parts                                         map[string]metric.Float64Histogram // by stream.PartEvent.Part
	access                                        map[string]metric.Float64Histogram // by stream.StateEvent.Op

	mu    sync.Mutex
	known map[stream.UID][]metric.RecordOption
}

// The bounds of histograms: checkpoints take from a millisecond to minutes, what is done
// to a batch may take microseconds, and to a key in memory less.
var (
	seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	instant = []float64{1e-6, 1e-5, 1e-4, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	access  = []float64{1e-7, 2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, .00025, .0005, .001, .0025, .005, .01, .05, .1, .5, 1}
	records = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
)

// maker makes instruments and keeps the first error.
type maker struct {
	metric.Meter
	err error
}

func (m *maker) counter(name, unit, text string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
	m.note(err)
	return c
}

func (m *maker) histogram(name, text string) metric.Float64Histogram {
	return m.bounded(name, "s", text, seconds)
}

func (m *maker) bounded(name, unit, text string, bounds []float64) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(bounds...))
	m.note(err)
	return h
}

func (m *maker) note(err error) {
	if m.err == nil {
		m.err = err
	}
}

func newMetrics(m metric.Meter, pipeline string) (*metrics, error) {
	mk := &maker{Meter: m}
	out := &metrics{
		pipeline:   attribute.String("pipeline", pipeline),
		known:      map[stream.UID][]metric.RecordOption{},
		restarts:   mk.counter("etl.pipeline.restarts", "{restart}", "restarts of the job, by the code of what ended the attempt"),
		complete:   mk.counter("etl.checkpoint.completed", "{checkpoint}", "checkpoints published"),
		fail:       mk.counter("etl.checkpoint.failed", "{checkpoint}", "checkpoints aborted"),
		commits:    mk.counter("etl.sink.commits", "{commit}", "commits of prepared transactions"),
		unreported: mk.counter("etl.source.group_commit_failures", "{failure}", "positions that could not be reported to the consumer group"),
		duration:   mk.histogram("etl.checkpoint.duration", "from trigger to publication"),
		commitTime: mk.histogram("etl.checkpoint.commit_duration", "from publication until all sinks have committed"),
		writes:     mk.bounded("etl.sink.write", "s", "handing a batch to a sink", instant),
		batches:    mk.bounded("etl.sink.batch_records", "", "records in a batch that a sink was handed", records),
		access: map[string]metric.Float64Histogram{
			"read":  mk.bounded("etl.state.read", "s", "looking up a batch of keys; sampled", access),
			"write": mk.bounded("etl.state.write", "s", "changing a key; sampled", access),
		},
		parts: map[string]metric.Float64Histogram{
			"start_delay": mk.histogram("etl.checkpoint.start_delay", "from the trigger to the first barrier of a subtask"),
			"align":       mk.histogram("etl.checkpoint.alignment", "from the first barrier of a subtask to its last"),
			"snapshot":    mk.histogram("etl.checkpoint.sync", "the part of a snapshot for which a subtask stands still"),
			"pre_commit":  mk.histogram("etl.checkpoint.pre_commit", "preparing a sink's transaction"),
			"upload":      mk.histogram("etl.checkpoint.upload", "making a snapshot durable"),
		},
	}
	g, err := m.Int64Gauge("etl.checkpoint.size", metric.WithUnit("By"), metric.WithDescription("size of the last checkpoint: what a restore reads (full), what it wrote (delta)"))
	mk.note(err)
	out.sizes = g
	return out, mk.err
}

// attrs are the labels of a measurement.
func (m *metrics) attrs(kv ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(kv, m.pipeline)...)
}

// component is attrs of a component, made once: what comes with every batch allocates
// nothing.
func (m *metrics) component(uid stream.UID) []metric.RecordOption {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.known[uid]
	if o == nil {
		o = []metric.RecordOption{m.attrs(attribute.String("component", string(uid)))}
		m.known[uid] = o
	}
	return o
}

func (m *metrics) wrote(e stream.WriteEvent) {
	o := m.component(e.Task.UID)
	m.writes.Record(context.Background(), e.Took.Seconds(), o...)
	m.batches.Record(context.Background(), float64(e.Records), o...)
}

func (m *metrics) accessed(e stream.StateEvent) {
	if h := m.access[e.Op]; h != nil {
		h.Record(context.Background(), e.Took.Seconds(), m.component(e.Task.UID)...)
	}
}

func (m *metrics) restart(err error) {
	cause := stream.CodeOf(err)
	if cause == "" {
		cause = stream.ClassOf(err).String()
	}
	m.restarts.Add(context.Background(), 1, m.attrs(attribute.String("cause", cause)))
}

func (m *metrics) published(e stream.CheckpointEvent) {
	ctx := context.Background()
	m.complete.Add(ctx, 1, m.attrs())
	m.duration.Record(ctx, e.Duration.Seconds(), m.attrs())
	m.sizes.Record(ctx, e.Size, m.attrs(attribute.String("kind", "full")))
	m.sizes.Record(ctx, e.Delta, m.attrs(attribute.String("kind", "delta")))
}

func (m *metrics) committed(d time.Duration) {
	m.commitTime.Record(context.Background(), d.Seconds(), m.attrs())
}

func (m *metrics) failed(e stream.CheckpointEvent) {
	m.fail.Add(context.Background(), 1, m.attrs(attribute.String("cause", e.Reason)))
}

func (m *metrics) commit(e stream.CommitEvent, result string) {
	m.commits.Add(context.Background(), 1, m.attrs(attribute.String("component", string(e.Task.UID)), attribute.String("result", result)))
}

// reported counts failures; a success makes sure that there is a number to compare.
func (m *metrics) reported(e stream.ReportEvent) {
	failed := int64(0)
	if e.Err != nil {
		failed = 1
	}
	m.unreported.Add(context.Background(), failed, m.attrs(attribute.String("component", string(e.Source))))
}

func (m *metrics) part(e stream.PartEvent) {
	if h := m.parts[e.Part]; h != nil {
		h.Record(context.Background(), e.Took.Seconds(), m.component(e.Task.UID)...)
	}
}

// buildInfo are the labels of etl_build_info.
func buildInfo(version string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("version", version), attribute.String("go_version", runtime.Version()))
}
