package telemetry

import (
	"time"

	"etl/stream"
)

// task is what is known of one subtask over all attempts: an attempt brings new
// counters, and what the ones before had counted is kept in base.
type task struct {
	kind    string
	base    counts
	current *stream.Counters

	sampled              time.Time
	last                 times
	busy, blocked, idled float64
}

// counts are the counters that only rise.
type counts struct {
	in, out, bytesIn, bytesOut, spilled int64
	rejects                             map[stream.Reject]int64
}

// times are the nanoseconds of one attempt.
type times struct{ busy, blocked, idle int64 }

// minWindow is the shortest time over which the shares of time are computed:
// several readers may collect at the same moment.
const minWindow = time.Second

// open takes the counters of a new attempt. The goroutines of the one before have
// ended (I16).
func (t *task) open(kind string, c *stream.Counters, now time.Time) {
	t.base = t.counts()
	t.kind, t.current = kind, c
	t.sampled, t.last = now, times{}
	t.busy, t.blocked, t.idled = 0, 0, 0
}

// counts returns the sums over all attempts.
func (t *task) counts() counts {
	b, c := t.base, t.current
	if c == nil {
		return b
	}
	b.in += c.RecordsIn.Load()
	b.out += c.RecordsOut.Load()
	b.bytesIn += c.BytesIn.Load()
	b.bytesOut += c.BytesOut.Load()
	b.spilled += c.Spilled.Load()
	now := c.Rejects.Counts()
	for k, n := range b.rejects {
		if now == nil {
			now = map[stream.Reject]int64{}
		}
		now[k] += n
	}
	b.rejects = now
	return b
}

// sample computes the shares of time since the last sample.
func (t *task) sample(now time.Time) {
	if now.Sub(t.sampled) < minWindow {
		return
	}
	c := t.current
	n := times{c.BusyNanos.Load(), c.BlockedNanos.Load(), c.IdleNanos.Load()}
	busy, blocked, idle := n.busy-t.last.busy, n.blocked-t.last.blocked, n.idle-t.last.idle
	t.sampled, t.last = now, n
	if sum := float64(busy + blocked + idle); sum > 0 {
		t.busy, t.blocked, t.idled = float64(busy)/sum, float64(blocked)/sum, float64(idle)/sum
	}
}
