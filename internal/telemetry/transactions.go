package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"etl/stream"
)

// transaction is one that has not ended.
type transaction struct {
	state  string
	begun  time.Time
	logged int64 // bytes in checkpoint storage
}

// onTransaction keeps what is not ended. One that is open has no checkpoint yet, and
// there is one at most in a lane: it is what a barrier flushes.
func (t *Telemetry) onTransaction(e stream.TransactionEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lane := t.txns[e.Task]
	if lane == nil {
		lane = map[stream.CheckpointID]transaction{}
		t.txns[e.Task] = lane
	}
	x, known := lane[e.ID]
	switch {
	case e.State == stream.TransactionEnded:
		delete(lane, e.ID)
		return
	case e.State == stream.TransactionFlushed:
		x = lane[stream.NoCheckpoint]
		delete(lane, stream.NoCheckpoint)
	case !known:
		x.begun = e.Begun
	}
	x.state, x.logged = e.State, e.Logged
	t.logs[e.Task.UID] = t.logs[e.Task.UID] || e.Logged > 0
	lane[e.ID] = x
}

// inSink are the transactions of a sink.
type inSink struct {
	states         map[string]int64
	oldest         time.Duration
	logged         int64
	oldestInTheLog time.Duration
}

// transactions adds them up, for every sink that is known: also those whose tasks are
// not there yet, because an attempt that restores commits what is left first.
func (t *Telemetry) transactions(now time.Time) map[stream.UID]*inSink {
	sinks := map[stream.UID]*inSink{}
	of := func(uid stream.UID) *inSink {
		s := sinks[uid]
		if s == nil {
			s = &inSink{states: map[string]int64{stream.TransactionOpen: 0, stream.TransactionFlushed: 0, stream.TransactionPrepared: 0}}
			sinks[uid] = s
		}
		return s
	}
	for id, x := range t.tasks {
		if x.kind == "sink" {
			of(id.UID)
		}
	}
	for lane, all := range t.txns {
		s := of(lane.UID)
		for _, x := range all {
			s.states[x.state]++
			s.oldest = max(s.oldest, now.Sub(x.begun))
			if s.logged += x.logged; x.logged > 0 {
				s.oldestInTheLog = max(s.oldestInTheLog, now.Sub(x.begun))
			}
		}
	}
	return sinks
}

// observeTransactions publishes them. The lock is held.
func (t *Telemetry) observeTransactions(ob metric.Observer, o *observed, now time.Time) {
	for uid, s := range t.transactions(now) {
		component := attribute.String("component", string(uid))
		ob.ObserveFloat64(o.oldest, s.oldest.Seconds(), t.metrics.attrs(component))
		if t.logs[uid] {
			ob.ObserveInt64(o.logged, s.logged, t.metrics.attrs(component))
			ob.ObserveFloat64(o.oldestLogged, s.oldestInTheLog.Seconds(), t.metrics.attrs(component))
		}
		for state, n := range s.states {
			ob.ObserveInt64(o.transactions, n, t.metrics.attrs(component, attribute.String("state", state)))
		}
	}
}
