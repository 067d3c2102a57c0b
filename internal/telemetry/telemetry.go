package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"etl/stream"
)

// Options say what is observed and how.
type Options struct {
	// Pipeline is the job's name, Guarantee the weakest one of its paths, such as
	// exactly_once, Version that of the program.
	Pipeline, Guarantee, Version string
	Log                          *slog.Logger // default: none
	Clock                        stream.Clock // default: the system's
	// MaxCheckpointAge makes /readyz fail when the last completed checkpoint is
	// older; 0: it may be any age.
	MaxCheckpointAge time.Duration
	// Getenv reads the OTEL_ variables that switch exporters on; default os.Getenv.
	Getenv func(string) string
}

// Telemetry observes one job.
type Telemetry struct {
	o        Options
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *metrics
	tracer   trace.Tracer
	shutdown []func(context.Context) error

	attempt atomic.Uint32

	mu          sync.Mutex
	tasks       map[stream.TaskID]*task
	lags        map[stream.TaskID]func() []Lag
	clients     map[stream.UID]func() []KafkaClient
	splits      map[stream.UID][]stream.Split                         // where a restart would go on
	txns        map[stream.TaskID]map[stream.CheckpointID]transaction // not ended, by lane
	logs        map[stream.UID]bool                                   // sinks whose rows lie in checkpoint storage
	phase       string
	restored    bool // some attempt has run
	begun       time.Time
	completed   time.Time
	completedID stream.CheckpointID
	open        map[stream.CheckpointID]*checkpoint
}

// checkpoint is one that is neither confirmed nor aborted.
type checkpoint struct {
	span      trace.Span
	published time.Time
	rows      int64
	delta     int64
	size      int64
}

// New returns a Telemetry. It fails only when an OTEL_ variable asks for an
// exporter that cannot be made.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = stream.SystemClock{}
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	t := &Telemetry{o: o, registry: prometheus.NewRegistry(), tasks: map[stream.TaskID]*task{}, lags: map[stream.TaskID]func() []Lag{}, clients: map[stream.UID]func() []KafkaClient{}, logs: map[stream.UID]bool{},
		txns: map[stream.TaskID]map[stream.CheckpointID]transaction{}, open: map[stream.CheckpointID]*checkpoint{}, begun: o.Clock.Now(), phase: "starting"}
	t.log = slog.New(withAttempt{o.Log.Handler(), &t.attempt}).With("job", o.Pipeline)
	if err := t.export(ctx); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

// Shutdown flushes and closes the exporters.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range t.shutdown {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// Listener returns what the engine is to call.
func (t *Telemetry) Listener() *stream.Listener {
	return &stream.Listener{Checkpoint: t.onCheckpoint, Part: t.onPart, Write: t.metrics.wrote, State: t.metrics.accessed,
		Transaction: t.onTransaction, Commit: t.onCommit, Report: t.onReport, Job: t.onJob, Task: t.onTask}
}

func (t *Telemetry) onTask(id stream.TaskID, kind string, c *stream.Counters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tasks[id] == nil {
		t.tasks[id] = &task{}
	}
	t.tasks[id].open(kind, c, t.o.Clock.Now())
}

func (t *Telemetry) onJob(e stream.JobEvent) {
	if e.Attempt > 0 {
		t.attempt.Store(uint32(e.Attempt))
	}
	t.mu.Lock()
	t.phase = e.Phase
	ended := false
	switch e.Phase {
	case "restoring":
		clear(t.txns) // what is left of them is told again
	case "running":
		t.restored = true
	case "restarting", "failed", "stopped", "fenced":
		ended = true
	}
	var left []*checkpoint
	if ended {
		for id, c := range t.open {
			left = append(left, c)
			delete(t.open, id)
		}
	}
	t.mu.Unlock()
	for _, c := range left {
		endSpan(c.span, e.At, "the attempt ended")
	}
	if e.Phase == "restarting" {
		t.metrics.restart(e.Err)
	}
	t.logJob(e)
}

func (t *Telemetry) onCheckpoint(e stream.CheckpointEvent) {
	switch e.Phase {
	case "triggered":
		span := t.startSpan(e)
		t.mu.Lock()
		t.open[e.ID] = &checkpoint{span: span}
		t.mu.Unlock()
	case "restored":
		t.mu.Lock()
		t.splits = e.Splits
		t.mu.Unlock()
	case "published":
		t.published(e)
	case "confirmed":
		t.confirmed(e)
	case "aborted":
		c := t.close(e.ID)
		endSpan(c.span, e.At, e.Reason)
		t.metrics.failed(e)
		t.log.Warn("checkpoint failed", "id", e.ID.String(), "kind", e.Kind.String(), "took", round(e.Duration), "cause", e.Reason, "error", e.Err)
	}
}

func (t *Telemetry) published(e stream.CheckpointEvent) {
	t.mu.Lock()
	t.completed, t.completedID, t.splits = e.At, e.ID, e.Splits
	c := t.open[e.ID]
	if c == nil {
		c = &checkpoint{span: t.startSpan(e)}
		t.open[e.ID] = c
	}
	c.published, c.delta, c.size = e.At, e.Delta, e.Size
	t.mu.Unlock()
	c.span.AddEvent("published", trace.WithTimestamp(e.At))
	t.metrics.published(e)
}

func (t *Telemetry) confirmed(e stream.CheckpointEvent) {
	c := t.close(e.ID)
	endSpan(c.span, e.At, "")
	var commit time.Duration
	if !c.published.IsZero() {
		commit = e.At.Sub(c.published)
		t.metrics.committed(commit)
	}
	t.log.Info("checkpoint", "id", e.ID.String(), "kind", e.Kind.String(), "took", round(e.Duration), "delta", size(e.Delta), "state", size(e.Size),
		"aligned", round(e.Alignment), "sync", round(e.Sync), "commit", round(commit), "rows", c.rows)
}

// close takes a checkpoint out of those under way.
func (t *Telemetry) close(id stream.CheckpointID) *checkpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.open[id]
	delete(t.open, id)
	if c == nil {
		c = &checkpoint{span: trace.SpanFromContext(context.Background())}
	}
	return c
}

func (t *Telemetry) onReport(e stream.ReportEvent) { t.metrics.reported(e) }

func (t *Telemetry) onPart(e stream.PartEvent) {
	t.metrics.part(e)
	if e.Part == "start_delay" {
		return // nobody is at work: the span of the checkpoint begins with it
	}
	t.childSpan(e.ID, e.Part, e.Task, e.Begin, e.Begin.Add(e.Took), "")
}

func (t *Telemetry) onCommit(e stream.CommitEvent) {
	now := t.o.Clock.Now()
	t.mu.Lock()
	if c := t.open[e.ID]; c != nil && (e.Outcome == "committed" || e.Outcome == "already_committed") {
		c.rows += e.Rows
	}
	t.mu.Unlock()
	result := commitResults[e.Outcome]
	failure := ""
	if result == "failed" {
		failure = e.Outcome
	}
	t.metrics.commit(e, result)
	t.childSpan(e.ID, "commit", e.Task, now.Add(-e.Duration), now, failure)
	t.logCommit(e, result)
}

// commitResults are the words of etl_sink_commits_total.
var commitResults = map[string]string{"committed": "ok", "already_committed": "already", "transient": "retried",
	"not_visible": "failed", "lost": "failed", "unknown": "failed"}
