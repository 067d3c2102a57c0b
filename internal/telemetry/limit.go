package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// burst is how many events of one kind are written in a window.
	burst = 10
	// window is how long repeats are counted.
	window = 10 * time.Second
	// kindsKept bounds the memory of the limiter.
	kindsKept = 1000
)

// limiter lets through a few events of a kind in a window of time and counts the
// rest: a million bad records must not become a million lines. The next line of
// the kind says how many were left out. Errors are never left out.
type limiter struct {
	next   slog.Handler
	shared *limits
	scope  string // attributes the logger was made with, which tell its events apart
}

type limits struct {
	mu    sync.Mutex
	kinds map[kind]*tally
}

type kind struct {
	level          slog.Level
	scope, message string
}

type tally struct {
	since   time.Time
	count   int
	omitted int
}

func newLimiter(next slog.Handler) *limiter {
	return &limiter{next: next, shared: &limits{kinds: map[kind]*tally{}}}
}

func (l *limiter) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	write, omitted := true, 0
	if r.Level < slog.LevelError {
		write, omitted = l.shared.admit(kind{r.Level, l.scope, r.Message}, r.Time)
	}
	if !write {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return l.next.Handle(ctx, r)
}

// admit reports whether an event is written, and how many of its kind were not
// since the last one that was.
func (l *limits) admit(k kind, now time.Time) (write bool, omitted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.kinds[k]
	if t == nil {
		if len(l.kinds) >= kindsKept {
			clear(l.kinds)
		}
		t = &tally{since: now}
		l.kinds[k] = t
	}
	if now.Sub(t.since) >= window {
		t.since, t.count = now, 0
	}
	if t.count >= burst {
		t.omitted++
		return false, 0
	}
	t.count++
	omitted, t.omitted = t.omitted, 0
	return true, omitted
}

func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	scope := l.scope
	for _, a := range attrs {
		scope += " " + a.String()
	}
	return &limiter{next: l.next.WithAttrs(attrs), shared: l.shared, scope: scope}
}

func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{next: l.next.WithGroup(name), shared: l.shared, scope: l.scope + " " + name}
}
