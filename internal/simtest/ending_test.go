package simtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"etl/internal/fault"
	"etl/pipeline"
	"etl/stream"
)

// how a life ends.
type how string

const (
	undisturbed how = "undisturbed"
	atPoint     how = "killed at"       // a named fault point
	atPass      how = "killed at pass"  // the n-th fault point, whichever it is
	atTime      how = "killed after"    // a random time
	stopped     how = "stopped after"   // a final checkpoint, exit 0
	cancelled   how = "cancelled after" // no checkpoint, own transactions ended
	refused     how = "refused"         // started in a way that must be refused, and change nothing
)

// ending is what one life comes to.
type ending struct {
	how   how
	point string
	n     int64
	after time.Duration
	power bool
	wrong wrong // refused: what is wrong with the start
}

func (e ending) String() string {
	switch e.how {
	case atPoint:
		return fmt.Sprintf("%s %s #%d", e.how, e.point, e.n)
	case atPass:
		return fmt.Sprintf("%s %d", e.how, e.n)
	case undisturbed:
		return string(e.how)
	case refused:
		return fmt.Sprintf("%s (%s)", e.how, e.wrong)
	}
	return fmt.Sprintf("%s %v", e.how, e.after)
}

// drawEnding decides how the n-th life ends. Points are taken in turn over the
// seeds, so that each gets its share of deaths.
func (s *sim) drawEnding(n int) ending {
	if n < len(s.plan.script) {
		return s.plan.script[n].end
	}
	r := s.r
	e := ending{power: r.Float64() < s.plan.power, after: time.Duration(r.IntN(1500)) * time.Millisecond}
	points := s.plan.mortalPoints()
	e.point, e.n = points[(int(s.seed)*11+n)%len(points)], 1+int64(r.IntN(4))
	if s.plan.jumps && r.IntN(2) == 0 { // between publication and commit, where a long downtime hurts
		e.point = pick(r, "log.append.checkpoint.after", "checkpoint.published", "kafka.endtxn.before", "kafka.endtxn.sent", "kafka.endtxn.after")
	}
	if *aim != "" {
		e.point = *aim
	}
	if once(e.point) || *aim != "" {
		e.n = 1
	}
	luck := r.IntN(100)
	switch {
	case n >= s.plan.lives || s.plan.script != nil:
		e.how = undisturbed
	case *aim != "":
		e.how = atPoint
	case luck < 85 && s.plan.moves: // long enough for a base to be made
		e.how, e.after = atTime, time.Duration(600+r.IntN(1600))*time.Millisecond
	case luck < 60:
		e.how = atPoint
	case luck < 70:
		e.how, e.n = atPass, 1+int64(r.IntN(25)) // on its way up
	case luck < 78:
		e.how, e.n = atPass, 1+int64(r.IntN(600))
	case luck < 87:
		e.how = atTime
	case luck < 91:
		e.how, e.wrong = refused, pick(r, olderCheckpoint, wrongGraph, missingObject, otherStorage)
	case luck < 96:
		e.how = stopped
	default:
		e.how = cancelled
	}
	return e
}

// arrange makes a life end as it should, and returns what undoes that.
func (s *sim) arrange(e ending, p *process, j *pipeline.Job) (undo func()) {
	var passes, at atomic.Int64
	fault.Watch(func(name string) {
		if p.isDead() {
			return
		}
		s.cov.add("point/" + name)
		die := e.how == atPass && passes.Add(1) == e.n || e.how == atPoint && matches(e.point, name) && at.Add(1) == e.n
		if die && p.kill(e.power) {
			s.died(name, e)
		}
	})
	spec := s.faultPlan()
	if e.how == undisturbed {
		spec = ""
	}
	s.setFaults(spec)
	if s.plan.badDisk && e.how != undisturbed {
		s.spoil()
	}
	over := make(chan struct{})
	s.background.Go(func() { s.act(e, p, j, over) })
	return func() {
		close(over)
		s.disk.OnOp(nil)
		fault.Watch(nil)
		s.setFaults("")
	}
}

func matches(pattern, name string) bool {
	prefix, any := strings.CutSuffix(pattern, "*")
	return name == pattern || any && strings.HasPrefix(name, prefix)
}

func (s *sim) died(name string, e ending) {
	s.cov.add("death/" + name)
	if e.power {
		s.cov.add("job/lost power")
	}
}

// act does what has to be done at a time.
func (s *sim) act(e ending, p *process, j *pipeline.Job, over <-chan struct{}) {
	if e.how == undisturbed {
		if !s.plan.bounded {
			s.untilAllIsOut(over)
			j.Stop()
		}
		return
	}
	after := e.after
	if e.how == atPoint || e.how == atPass {
		after = 20 * time.Second // the point does not occur in this pipeline
	}
	select {
	case <-over:
		return
	case <-time.After(after):
	}
	switch e.how {
	case stopped:
		s.cov.add("job/stopped")
		j.Stop()
	case cancelled:
		s.cov.add("job/cancelled")
		j.Cancel()
	default:
		if p.kill(e.power) {
			s.died("time", e)
		}
	}
}

// untilAllIsOut waits until a reader has seen as much as must come out. When it
// never does, the checks will tell what is missing.
func (s *sim) untilAllIsOut(over <-chan struct{}) {
	<-s.in.done
	for range 2000 {
		if !slices.ContainsFunc(s.outlets, func(o *outlet) bool { return !o.isOut() }) {
			return
		}
		select {
		case <-over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.cov.add("job/stopped without all rows")
}

// mayEnd reports whether the job may end with an error that a supervisor answers
// by leaving it alone; all others are findings. The checks judge a declared loss.
func (s *sim) mayEnd(err error) bool {
	switch {
	case stream.ClassOf(err) == stream.DataLoss:
		s.lossTold, s.lossAt, s.openAtLoss = err, time.Now(), s.openTxns()
		s.cov.add("job/declared a loss: " + stream.CodeOf(err))
		return true
	case stream.CodeOf(err) == "checkpoint.too_many_failures": // at the end: exit 1, start again
		s.cov.add("job/exit 1 at the end")
		return false
	case s.plan.badDisk && stream.CodeOf(err) == "storage.unusable": // exit 3
		s.cov.add("job/exit 3, the disk fails")
		return false
	case errors.Is(err, errStuck):
		return true
	}
	s.fail("the job ended with %v (%s, %s)", err, stream.ClassOf(err), stream.CodeOf(err))
	return true
}
