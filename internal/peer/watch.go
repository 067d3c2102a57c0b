package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"etl/stream"
)

const (
	// tellAfter is how long somebody waits before the first line. Each pause after it is
	// twice the last one, up to tellEvery.
	tellAfter = 5 * time.Second
	tellEvery = time.Minute
	// lingers is how long after a failed attempt the next one is taken to be due;
	// forgets, how long after one another one goes on with the same waiting.
	lingers = 3 * time.Second
	forgets = 5 * time.Minute
	// lookEvery is how often the watch looks.
	lookEvery = time.Second
)

// Wait is one server that somebody is waiting for.
type Wait struct {
	Server string
	Seen   string // what is seen of it
	For    time.Duration
}

// String returns the line to show.
func (w Wait) String() string {
	return "still waiting for " + w.Server + ": " + w.Seen
}

type nameKey struct{}

// Named says, in the context of a dialer, which server it is that is dialled.
func Named(ctx context.Context, server string) context.Context {
	return context.WithValue(ctx, nameKey{}, server)
}

// Watch knows which servers are being waited for. Make it with [NewWatch].
type Watch struct {
	clock stream.Clock
	tell  func(Wait)

	mu      sync.Mutex
	waiting map[string]*waiting
}

// waiting is what is known of a server since its last answer.
type waiting struct {
	since, ended time.Time // since is zero when it has answered
	open         int       // attempts under way: until the first answer, or the end
	seen         string
	next, pause  time.Duration // when to tell, after since
}

// NewWatch returns a watch that tells tell, from the goroutine of Run.
func NewWatch(clock stream.Clock, tell func(Wait)) *Watch {
	return &Watch{clock: clock, tell: tell, waiting: map[string]*waiting{}}
}

// Run looks and tells until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	t := w.clock.Ticker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
			for _, x := range w.due() {
				w.tell(x)
			}
		case <-ctx.Done():
			return
		}
	}
}

// due returns what is to be told now.
func (w *Watch) due() (out []Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	for name, s := range w.waiting {
		if s.since.IsZero() || s.open == 0 && now.Sub(s.ended) > lingers {
			continue
		}
		if d := now.Sub(s.since); d >= s.next {
			out = append(out, Wait{name, s.seen, d})
			s.pause = min(2*s.pause, tellEvery)
			s.next = d + s.pause
		}
	}
	return out
}

// Dialer watches what next dials.
func (w *Watch) Dialer(next stream.Dialer) stream.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, ok := ctx.Value(nameKey{}).(string)
		if !ok {
			return next(ctx, network, addr)
		}
		s := w.begin(name)
		c, err := next(ctx, network, addr)
		if err != nil {
			w.end(s, refusal(err))
			return nil, err
		}
		w.see(s, "it accepts connections and does not answer")
		return &watched{Conn: c, w: w, s: s}, nil
	}
}

// refusal words an attempt that came to nothing; "" when it was given up.
func refusal(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.As(err, &dns):
		return "its name is not known here"
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not take connections"
	}
	return err.Error()
}

func (w *Watch) begin(name string) *waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.waiting[name]
	if s == nil {
		s = &waiting{}
		w.waiting[name] = s
	}
	now := w.clock.Now()
	if s.since.IsZero() || s.open == 0 && now.Sub(s.ended) > forgets {
		s.since, s.next, s.pause, s.seen = now, tellAfter, tellAfter, "it does not take connections"
	}
	s.open++
	return s
}

func (w *Watch) see(s *waiting, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.seen = what
}

// end is the end of an attempt without an answer.
func (w *Watch) end(s *waiting, seen string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.open--
	s.ended = w.clock.Now()
	if seen != "" {
		s.seen = seen
	}
}

// answered is the end of the waiting.
func (w *Watch) answered(s *waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.open--
	s.since = time.Time{}
}

// watched is a connection until its first answer.
type watched struct {
	net.Conn
	w    *Watch
	s    *waiting
	once sync.Once
}

// Read reads; the first byte is an answer.
func (c *watched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.once.Do(func() { c.w.answered(c.s) })
	}
	return n, err
}

// Close closes.
func (c *watched) Close() error {
	c.once.Do(func() { c.w.end(c.s, "") })
	return c.Conn.Close()
}
