package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"etl/stream"
)

// startSpan begins the span of a checkpoint.
func (t *Telemetry) startSpan(e stream.CheckpointEvent) trace.Span {
	_, span := t.tracer.Start(context.Background(), "checkpoint", trace.WithTimestamp(e.At), trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("etl.pipeline", t.o.Pipeline), attribute.String("etl.checkpoint.id", e.ID.String()), attribute.String("etl.checkpoint.kind", e.Kind.String())))
	return span
}

// endSpan ends a checkpoint's span, with an error when failure says one.
func endSpan(s trace.Span, at time.Time, failure string) {
	if s == nil {
		return
	}
	if failure != "" {
		s.SetStatus(codes.Error, failure)
	}
	s.End(trace.WithTimestamp(at))
}

// childSpan records a part of a checkpoint that is over. A commit that recovery
// makes for an earlier attempt has no parent.
func (t *Telemetry) childSpan(id stream.CheckpointID, name string, task stream.TaskID, from, to time.Time, failure string) {
	ctx := context.Background()
	t.mu.Lock()
	if c := t.open[id]; c != nil {
		ctx = trace.ContextWithSpan(ctx, c.span)
	}
	t.mu.Unlock()
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(
		attribute.String("etl.pipeline", t.o.Pipeline), attribute.String("etl.checkpoint.id", id.String()),
		attribute.String("etl.component", string(task.UID)), attribute.Int("etl.subtask", task.Subtask)))
	endSpan(span, to, failure)
}
