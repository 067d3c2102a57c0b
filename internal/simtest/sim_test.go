package simtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"etl/internal/fault"
	"etl/internal/simtest/crashfs"
	"etl/pipeline"
)

var (
	seeds = flag.Int("seeds", 200, "number of simulated runs")
	first = flag.Uint64("first", 1, "the first seed")
	seed  = flag.Uint64("seed", 0, "replay the run with this seed only")
	every = flag.Uint64("every", 1, "run each n-th seed only: the processes of a run share them out")
	aim   = flag.String("aim", "", "let every process die at this fault point, and end with the first seed in which one did")
	talk  = flag.Bool("talk", false, "log what the jobs say")
)

var (
	errKilled = errors.New("killed")
	errStuck  = errors.New("the job makes no progress")
)

// TestSeeds runs seeds in this process, one after the other. TestSimulation runs it
// in several processes, because the fault points are those of a process.
func TestSeeds(t *testing.T) {
	if !virtualMutexes {
		t.Skip("needs -tags synctests; TestSimulation builds that")
	}
	from, to, step := *first, *first+uint64(*seeds), *every
	if *seed != 0 {
		from, to, step = *seed, *seed+1, 1
	}
	for n := from; n < to; n += step {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) { runSeed(t, n, nil) })
		if *aim != "" && total.n["death/"+*aim] > 0 {
			break
		}
	}
	reportShard()
}

// runSeed runs one seed; change may alter its plan.
func runSeed(t *testing.T, n uint64, change func(*plan)) (s *sim) {
	began, most := time.Now(), hangAfter
	if os.Getenv("ETL_BROKEN") != "" {
		most = brokenHangAfter
	}
	hang := time.AfterFunc(most, func() { dump(n) })
	defer hang.Stop()
	synctest.Test(t, func(t *testing.T) {
		s = newSim(t, n)
		if change != nil {
			change(&s.plan)
		}
		s.run()
		s.cov.flush()
	})
	if *seed != 0 {
		t.Logf("seed %d took %v of real time", n, time.Since(began))
	}
	return s
}

// hangAfter is how much real time a seed may take, on a machine that is busy with other
// tests, too: time stands still in the bubble when a goroutine waits for a mutex that is
// held by one that waits for time. A build that breaks a rule may hang for that.
const (
	hangAfter       = 5 * time.Minute
	brokenHangAfter = 33 * time.Second
)

func dump(n uint64) {
	buf := make([]byte, 4<<20)
	fmt.Fprintf(os.Stderr, "seed %d hangs:\n%s\n", n, buf[:runtime.Stack(buf, true)])
	os.Exit(2)
}

// pause lets virtual time pass.
func pause(d time.Duration) { time.Sleep(d) }

// sim is one job and its world from first start to last.
type sim struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	plan plan
	par  int
	cov  *coverage

	net     kfake.VirtualNetwork
	cluster *kfake.Cluster
	seeds   []string
	disk    *crashfs.FS
	// machines have a disk each, for the local state base: a job that comes back to
	// a machine finds there what is no longer true.
	machines [2]*baseDisk

	in         *input
	outlets    []*outlet
	gremlin    *gremlin
	background sync.WaitGroup
	processes  int
	running    atomic.Int32    // jobs
	healed     atomic.Bool     // nothing goes wrong any more: the job must get to its end
	story      []string        // what happened, for messages
	abandoned  map[string]bool // checkpoints whose abandonment was judged
	lossTold   error           // the job declared a loss
	lossAt     time.Time
	openAtLoss map[producer]bool
}

func newSim(t *testing.T, n uint64) *sim {
	s := &sim{t: t, seed: n, cov: newCoverage(), disk: crashfs.New(), abandoned: map[string]bool{}}
	s.r = s.rand("plan")
	s.plan = newPlan(s.r)
	if *aim != "" {
		s.plan.aimAt(*aim)
	}
	return s
}

// fail reports what must not be.
func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("seed %d: %s\n\tplan %+v\n\t%v", s.seed, fmt.Sprintf(format, args...), s.plan, s.story)
}

func (s *sim) tell(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf(format, args...))
}

// later runs f at some time, unless the seed ends before.
func (s *sim) later(r *rand.Rand, f func()) {
	d := time.Duration(r.IntN(4000)) * time.Millisecond
	s.background.Go(func() {
		pause(d)
		f()
	})
}

// run lives the whole life of the job and judges it.
func (s *sim) run() {
	s.par = s.plan.par
	for i := range s.machines {
		s.machines[i] = newBaseDisk(s.plan.pebble)
	}
	s.startBrokers()
	defer s.cluster.Close()
	s.in = s.newInput()
	defer func() { s.in.cl.Close() }()
	if s.plan.bounded {
		s.in.fill()
	} else {
		s.background.Go(s.in.flow)
	}
	s.outlets = s.outletsOf()
	for _, o := range s.outlets {
		o.watcher = s.watch(o.topic)
	}
	s.gremlin = s.release()
	if s.plan.owners {
		s.succession()
	} else {
		s.lives()
	}
	s.gremlin.calm()
	s.background.Wait()
	s.judge()
}

// lives starts the job until it is finished, and makes most starts die.
func (s *sim) lives() {
	for n := 0; ; n++ {
		e := s.drawEnding(n)
		if e.how == undisturbed {
			s.heal()
		}
		s.maybeRescale(n)
		err := s.live(e)
		switch {
		case e.how == refused:
		case err == nil && e.how == undisturbed, s.t.Failed():
			return
		case err == nil, errors.Is(err, errKilled):
		case s.mayEnd(err):
			return
		}
		if n > 40 {
			s.fail("the job does not get to its end: %v", err)
			return
		}
		s.maybeJump(n)
	}
}

// heal ends all trouble but latency.
func (s *sim) heal() {
	s.gremlin.calm()
	s.healed.Store(true)
}

func (s *sim) maybeRescale(n int) {
	if n == 0 || !s.plan.rescale || s.r.IntN(2) == 0 {
		return
	}
	if par := 1 + s.r.IntN(3); par != s.par {
		s.tell("rescaled from %d to %d", s.par, par)
		s.par = par
		s.cov.add("job/rescaled")
	}
}

// maybeJump lets the job be down for longer than something outside lasts.
func (s *sim) maybeJump(n int) {
	if s.plan.script != nil {
		if n < len(s.plan.script) {
			pause(s.plan.script[n].down)
		}
		return
	}
	if !s.plan.jumps || s.r.IntN(2) == 0 {
		pause(time.Duration(s.r.IntN(500)) * time.Millisecond)
		return
	}
	d := pick(s.r, transactionTimeout, idExpiration, offsetsRetention) + 2*time.Minute
	s.tell("down for %v", d)
	s.cov.add("down/" + d.String())
	pause(d)
}

// live runs the job once, in one process, until it ends or is made to.
func (s *sim) live(e ending) error {
	p := s.newProcess()
	if e.how == refused {
		return s.refuse(p, e.wrong)
	}
	j, err := s.newJob(p, false)
	if err != nil {
		s.fail("new job: %v", err)
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	p.cancel = cancel
	undo := s.arrange(e, p, j)
	defer undo()
	err = s.await(p, j, ctx)
	if err != nil && p.isDead() {
		err = errKilled
	}
	p.kill(false)
	s.tell("%s %s: %v", p.name, e, err)
	s.checkAbandoned()
	return err
}

// await runs the job and returns how it ended. One that does not end at all is an
// error, and the bubble's.
func (s *sim) await(p *process, j *pipeline.Job, ctx context.Context) error {
	done := make(chan error, 1)
	s.running.Add(1)
	defer s.running.Add(-1)
	go func() { done <- j.Run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(stuckAfter):
	}
	buf := make([]byte, 1<<20)
	s.fail("%s does not end (dead: %v): %+v\n%s", p.name, p.isDead(), j.Status(), buf[:runtime.Stack(buf, true)])
	p.kill(false)
	<-done
	return errStuck
}

// stuckAfter is how much virtual time a life may take.
const stuckAfter = 10 * time.Minute

// faultPlan is what fault points answer in this seed.
func (s *sim) faultPlan() string {
	var parts string
	if s.plan.decline > 0 {
		parts += fmt.Sprintf("checkpoint.append.declined:every%d:error,", s.plan.decline)
	}
	if s.plan.upload > 0 {
		parts += fmt.Sprintf("uploader.create:every%d:error,", s.plan.upload)
	}
	return parts
}

func (s *sim) setFaults(spec string) {
	if err := fault.Set(spec); err != nil {
		s.t.Fatal(err)
	}
}
