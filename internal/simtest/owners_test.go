package simtest

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"etl/internal/fault"
	"etl/pipeline"
	"etl/stream"
)

// owner is one of several processes of the same job.
type owner struct {
	p      *process
	j      *pipeline.Job
	result chan error
	over   chan struct{} // closed when it need not wait any more
	opened bool          // it had an attempt when the next one started
}

// succession starts a process while the one before works, or is stopped in the
// middle of something, again and again. Whoever opened the newest attempt has to
// finish; the others must find out that they are fenced, whenever they go on.
func (s *sim) succession() {
	fault.Watch(func(name string) { s.cov.add("point/" + name) })
	defer fault.Watch(nil)
	s.setFaults(s.faultPlan())
	defer s.setFaults("")
	count := 2 + s.r.IntN(3)
	var owners []*owner
	for i := range count {
		o := s.takeOver(i > 0)
		if o == nil {
			return
		}
		owners = append(owners, o)
		if i < count-1 {
			s.stopSomewhere(o)
			o.opened = o.j.Status().Attempt > 0
			later := time.Duration(s.r.IntN(8000)) * time.Millisecond
			s.background.Go(func() { o.thawLater(later) })
		}
	}
	s.setFaults("")
	s.heal()
	s.finish(owners)
	s.checkSuccession(owners)
	pause(transactionTimeout + time.Minute) // nobody is left to sweep up what they opened
}

func (o *owner) thawLater(d time.Duration) {
	select {
	case <-o.over:
	case <-time.After(d):
	}
	o.p.thaw()
}

// stops are where a process is stopped, in turn over the seeds: around everything
// that decides or changes something outside.
var stops = []string{
	"put called", "put done", "EndTxn sent", "EndTxn answered", "put called", "put done",
	"InitProducerID sent", "InitProducerID answered", "TxnOffsetCommit sent", "TxnOffsetCommit answered", "Produce sent", "Produce answered",
	"OffsetFetch sent", "OffsetFetch answered", "DescribeTransactions sent", "DescribeTransactions answered", "DescribeProducers answered",
	"ListTransactions answered", "list done", "get done", "create done", "delete called",
}

// takeOver starts another process.
func (s *sim) takeOver(force bool) *owner {
	o := &owner{p: s.newProcess(), result: make(chan error, 1), over: make(chan struct{})}
	var err error
	if o.j, err = s.newJob(o.p, force); err != nil {
		s.fail("new job: %v", err)
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	o.p.cancel = cancel
	s.running.Add(1)
	go func() {
		defer s.running.Add(-1)
		o.result <- o.j.Run(ctx)
	}()
	return o
}

// stopSomewhere lets an owner work and stops it: at some time, or where a request
// goes out or an answer comes in. Some are not stopped at all.
func (s *sim) stopSomewhere(o *owner) {
	works := time.Duration(s.r.IntN(1200)) * time.Millisecond
	switch s.r.IntN(4) {
	case 0:
		pause(works)
		s.tell("%s goes on", o.p.name)
		return
	case 1:
		pause(works)
		s.tell("%s stopped after %v", o.p.name, works)
		o.p.freeze()
		return
	}
	where := stops[(int(s.seed)*3+s.processes)%len(stops)]
	nth := int64(1 + s.r.IntN(6))
	if s.r.IntN(2) == 0 {
		nth = 1 // while it starts
	}
	var n atomic.Int64
	hit := make(chan struct{})
	o.p.mu.Lock()
	o.p.onReach = func(at string) {
		if at == where && n.Add(1) == nth {
			o.p.freeze()
			close(hit)
		}
	}
	o.p.mu.Unlock()
	select {
	case <-hit:
		s.tell("%s stopped at %s #%d", o.p.name, where, nth)
		s.cov.add("stopped at/" + where)
	case <-time.After(3 * time.Second):
		s.tell("%s goes on", o.p.name)
	}
	o.p.mu.Lock()
	o.p.onReach = nil
	o.p.mu.Unlock()
	pause(time.Duration(s.r.IntN(100)) * time.Millisecond)
}

// finish waits until all is out and everybody has ended.
func (s *sim) finish(owners []*owner) {
	over := make(chan struct{})
	if !s.plan.bounded {
		s.untilAllIsOut(over)
		for _, o := range owners {
			o.p.thaw()
			o.j.Stop()
		}
	}
	finished := false
	for i := len(owners) - 1; i >= 0; i-- {
		o := owners[i]
		err := s.ended(o)
		s.tell("%s ended: %v", o.p.name, err)
		finished = s.checkFenced(o, err) || finished
		o.p.kill(false)
		if o.over != nil {
			close(o.over)
		}
	}
	if !finished && s.lossTold == nil {
		s.fail("nobody finished the job")
	}
}

// ended waits for an owner. One that is stopped goes on in time by itself.
func (s *sim) ended(o *owner) error {
	select {
	case err := <-o.result:
		return err
	case <-time.After(stuckAfter):
	}
	buf := make([]byte, 1<<20)
	s.fail("%s does not end: %+v\n%s", o.p.name, o.j.Status(), buf[:runtime.Stack(buf, true)])
	o.p.kill(false)
	return <-o.result
}

// checkFenced judges how an owner ended, and reports whether it did its work.
func (s *sim) checkFenced(o *owner, err error) bool {
	switch {
	case err == nil:
		s.cov.add("owners/finished")
		return true
	case stream.ClassOf(err) == stream.Fenced:
		s.cov.add("owners/fenced")
	case stream.CodeOf(err) == "checkpoint.too_many_failures":
		s.cov.add("owners/exit 1")
	default:
		s.fail("%s, one of several owners, ended with %v (%s)", o.p.name, err, stream.ClassOf(err))
	}
	return false
}

// checkSuccession: an owner that had opened its attempt when the next one started
// never opens another one after that.
func (s *sim) checkSuccession(owners []*owner) {
	first, last := map[string]uint32{}, map[string]uint32{}
	for _, e := range s.readLog() {
		if e.Kind != "attempt" || e.Holder == nil {
			continue
		}
		if first[e.Holder.Host] == 0 {
			first[e.Holder.Host] = e.Attempt
		}
		last[e.Holder.Host] = e.Attempt
	}
	for i, o := range owners {
		for _, next := range owners[i+1:] {
			if began := first[next.p.name]; o.opened && began > 0 && last[o.p.name] > began {
				s.fail("%s took the job back from %s: attempt %d after %d", o.p.name, next.p.name, last[o.p.name], began)
			}
		}
	}
}
