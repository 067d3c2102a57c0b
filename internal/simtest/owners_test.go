package simtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/fault"
	"etl/pipeline"
	"etl/stream"
)

// owner is one of several processes of the same job.
type owner struct {
	p      *process
	j      *pipeline.Job
	result chan error
}

// succession starts a process while the one before works, or is stopped in the
// middle of something, again and again. The last one is left alone and must
// finish; the others must find out that they are fenced, whenever they go on.
func (s *sim) succession() {
	fault.Watch(func(name string) { s.cov.add("point/" + name) })
	defer fault.Watch(nil)
	s.setFaults(s.faultPlan())
	defer s.setFaults("")
	count := 2 + s.r.IntN(3)
	var owners []*owner
	over := make(chan struct{})
	var thawing sync.WaitGroup
	for i := range count {
		o := s.takeOver(i > 0)
		if o == nil {
			return
		}
		owners = append(owners, o)
		if i == count-1 {
			break
		}
		s.stopSomewhere(o)
		thaw := time.Duration(s.r.IntN(8000)) * time.Millisecond
		thawing.Go(func() {
			select {
			case <-over:
			case <-time.After(thaw):
			}
			o.p.thaw()
		})
	}
	s.finish(owners[count-1])
	close(over)
	thawing.Wait()
	s.old(owners[:count-1])
	pause(transactionTimeout + time.Minute) // nobody is left to sweep up what they opened
}

// takeOver starts another process.
func (s *sim) takeOver(force bool) *owner {
	o := &owner{p: s.newProcess(), result: make(chan error, 1)}
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
	key := pick(s.r, kmsg.EndTxn, kmsg.EndTxn, kmsg.InitProducerID, kmsg.TxnOffsetCommit, kmsg.Produce, kmsg.OffsetFetch, kmsg.DescribeTransactions)
	answer, nth := s.r.IntN(2) == 0, int64(1+s.r.IntN(6))
	var n atomic.Int64
	hit := make(chan struct{})
	o.p.mu.Lock()
	o.p.onReach = func(k kmsg.Key, a bool) {
		if k == key && a == answer && n.Add(1) == nth {
			o.p.freeze()
			close(hit)
		}
	}
	o.p.mu.Unlock()
	select {
	case <-hit:
		s.tell("%s stopped at %s #%d, answer %v", o.p.name, key.Name(), nth, answer)
		s.cov.add("owners/stopped at " + key.Name())
	case <-time.After(3 * time.Second):
		s.tell("%s goes on", o.p.name)
	}
	pause(time.Duration(s.r.IntN(100)) * time.Millisecond)
}

// finish leaves the last owner alone until it is done.
func (s *sim) finish(o *owner) {
	s.setFaults("")
	s.gremlin.calm()
	over := make(chan struct{})
	defer close(over)
	if !s.plan.bounded {
		s.background.Go(func() {
			s.untilAllIsOut(over)
			o.j.Stop()
		})
	}
	select {
	case err := <-o.result:
		s.tell("%s ended: %v", o.p.name, err)
		if err != nil && !s.mayEnd(err) {
			s.fail("the last owner ended with %v", err)
		}
	case <-time.After(stuckAfter):
		s.fail("the last owner makes no progress")
		o.p.kill(false)
		<-o.result
	}
	o.p.kill(false)
}

// old waits for the earlier owners: they must end by themselves, fenced.
func (s *sim) old(owners []*owner) {
	for i, o := range owners {
		select {
		case err := <-o.result:
			s.tell("%s ended: %v", o.p.name, err)
			switch {
			case err == nil: // it was finished before anybody took over
				s.cov.add("owners/finished before")
				if i == 0 && !s.plan.bounded {
					s.fail("%s ended without an error though it never was asked to", o.p.name)
				}
			case errors.Is(err, errKilled):
			case stream.ClassOf(err) != stream.Fenced:
				s.fail("an older owner ended with %v (%s) instead of being fenced", err, stream.ClassOf(err))
			default:
				s.cov.add("owners/fenced")
			}
		case <-time.After(stuckAfter):
			s.fail("an older owner does not end")
			o.p.kill(false)
			<-o.result
		}
		o.p.kill(false)
	}
}
