package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// withAttempt adds the number of the running attempt to every event: loggers are
// made before it is known, and outlive it.
type withAttempt struct {
	next   slog.Handler
	number *atomic.Uint32
}

func (h withAttempt) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h withAttempt) Handle(ctx context.Context, r slog.Record) error {
	if n := h.number.Load(); n > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("attempt", uint64(n)))
	}
	return h.next.Handle(ctx, r)
}

func (h withAttempt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withAttempt{h.next.WithAttrs(attrs), h.number}
}

func (h withAttempt) WithGroup(name string) slog.Handler {
	return withAttempt{h.next.WithGroup(name), h.number}
}

// Logger returns the logger for everything of the job: it names the job and the
// attempt.
func (t *Telemetry) Logger() *slog.Logger { return t.log }
