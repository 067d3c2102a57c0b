package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/fault"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

var (
	seeds = flag.Int("seeds", 60, "number of simulated runs")
	seed  = flag.Uint64("seed", 0, "replay the run with this seed only")
	talk  = flag.Bool("talk", false, "log what the jobs say")
)

// TestCrashAnywhere runs a counting job in virtual time over and over, lets it die
// at random points of the protocol and at random times, aborts checkpoints after
// everything was prepared, and at last compares what the outside store has
// committed with a recount of the input: no key may lack a count, have one twice,
// or in the wrong order.
func TestCrashAnywhere(t *testing.T) {
	first, n := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+n; s++ {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := newSimulation(t, s)
				if sim.deferred = s%2 == 0; sim.deferred {
					sim.slow = 70 * time.Millisecond // more than an interval
				}
				sim.run()
			})
		})
	}
}

// simulation is one job and its outside from first start to last.
type simulation struct {
	t       *testing.T
	r       *rand.Rand
	seed    uint64
	out     *outside
	store   *memstore.Store
	par     int
	records int
	crashes map[string]int
	build   func() *Graph // nil for the counting job
	// deferred: a restart leaves what is prepared to the sink's lanes.
	deferred bool
	slow     time.Duration // of commits
	restore  RestoreOptions
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), out: newOutside(), store: memstore.New("sim"), crashes: map[string]int{}}
	s.par = 1 + s.r.IntN(3)
	s.records = 200 + s.r.IntN(2000)
	parts := make([][]string, 3)
	for range s.records {
		p := s.r.IntN(len(parts))
		parts[p] = append(parts[p], fmt.Sprint("k", s.r.IntN(20)))
	}
	s.out.partitions["in"] = parts
	return s
}

// graph is source -> slow -> rekey -> count -> sink.
func (s *simulation) graph() *Graph {
	if s.build != nil {
		return s.build()
	}
	schema := &stream.Schema{}
	return &Graph{Name: "sim", Parallelism: s.par, MaxParallelism: 16, Nodes: []*Node{
		{UID: "in", Kind: SourceKind, Type: "mem", Out: schema, Source: &Source{Bounded: true,
			NewEnumerator: func() source.Enumerator { return &memEnumerator{o: s.out, topic: "in", bounded: true} },
			NewReader:     func() source.Reader { return &memReader{o: s.out, topic: "in", batch: 7, pace: 3 * time.Millisecond} }}},
		{UID: "slow", Kind: OperatorKind, Type: "slow", Out: schema, Inputs: []Input{{From: "in"}}, Operator: &Operator{New: func() transform.Operator { return &slow{} }}},
		{UID: "count", Kind: OperatorKind, Type: "count", Out: schema, Inputs: []Input{{From: "slow", Key: &Key{Text: "key", New: func() Keyer { return byKey{} }}}},
			Operator: &Operator{New: func() transform.Operator { return &counter{} }, Keyed: counterState}},
		{UID: "out", Kind: SinkKind, Type: "mem", Inputs: []Input{{From: "count"}}, Sink: &Sink{Features: sink.Features{Transactional: true, Marker: true, MarkerStays: true, Deferred: s.deferred},
			NewWriter:    func() sink.Writer { return &memWriter{o: s.out} },
			NewCommitter: func() sink.Committer { return &memCommitter{o: s.out, slow: s.slow} }}},
	}}
}

func (s *simulation) options() Options {
	log := slog.New(slog.DiscardHandler)
	if *talk {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	w := stream.SystemWorld(log)
	w.Entropy = &entropy{r: rand.New(rand.NewPCG(s.r.Uint64(), 3))}
	return Options{World: w, Storage: s.store, Seed: s.seed, Restore: s.restore,
		Policy:  checkpoint.Policy{Interval: 50 * time.Millisecond, MinPause: 5 * time.Millisecond, Timeout: 400 * time.Millisecond, TolerableFailures: 5},
		Restart: RestartStrategy{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond},
		NewBackend: func(e BackendEnv) (state.Backend, error) {
			return &memBackend{objects: e.Objects, max: e.MaxParallelism}, nil
		}}
}

type entropy struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (e *entropy) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b [8]byte
	for i := range p {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(b[:], e.r.Uint64())
		}
		p[i] = b[i%8]
	}
	return len(p), nil
}

// dieAt runs the job until it passes a point for the first time, where it dies.
func (s *simulation) dieAt(point string) {
	ctx, cancel := context.WithCancelCause(context.Background())
	fault.Watch(func(name string) {
		if name == point && ctx.Err() == nil {
			cancel(errCrash)
			runtime.Goexit()
		}
	})
	defer fault.Watch(nil)
	j, err := NewJob(s.graph(), s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := runMortal(ctx, j); !errors.Is(err, errCrash) {
		s.t.Fatalf("the job did not die at %s: %v", point, err)
	}
}

// slowStorage makes the storage take its time, as one behind a network does.
func (s *simulation) slowStorage() {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(s.r.Uint64(), 2))
	s.store.Inject(func(memstore.Call) memstore.Verdict {
		mu.Lock()
		defer mu.Unlock()
		wait := make(chan struct{})
		time.AfterFunc(time.Duration(r.IntN(15))*time.Millisecond, func() { close(wait) })
		return memstore.Verdict{Wait: wait}
	})
}

// errStuck is the cause of a job that makes no progress.
var errStuck = errors.New("the job is stuck")

// errCrash is the cause of a job that was made to die.
var errCrash = errors.New("crash")

// run starts the job until it finishes, and makes most starts die.
func (s *simulation) run() {
	for starts := 0; ; starts++ {
		if starts > 60 {
			s.t.Fatalf("seed %d: the job does not get to its end", s.seed)
		}
		if err := s.start(starts < 3+s.r.IntN(12)); err == nil {
			break
		} else if !errors.Is(err, errCrash) {
			s.t.Fatalf("seed %d: start %d: %v", s.seed, starts, err)
		}
	}
	s.check()
	s.t.Logf("parallelism %d, %d records, died at %v, %d commits", s.par, s.records, s.crashes, s.out.commits)
}

// start runs the job once; a doomed one dies when it passes a random point for the
// n-th time, or after a random time.
func (s *simulation) start(doomed bool) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	aborts := s.r.IntN(3)
	dies := int64(0)
	if doomed {
		dies = 1 + int64(s.r.IntN(60))
	}
	var mu sync.Mutex
	passes, dead := int64(0), false
	fault.Watch(func(name string) {
		mu.Lock()
		passes++
		now := passes == dies && !dead
		dead = dead || now
		mu.Unlock()
		if now {
			s.crashes[name]++
			cancel(errCrash)
			runtime.Goexit() // nothing behind the point happens
		}
	})
	defer fault.Watch(nil)
	plan := ""
	if aborts > 0 {
		plan = fmt.Sprintf("checkpoint.append.declined:every%d:error", 2+aborts)
	}
	if err := fault.Set(plan); err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = fault.Set("") }()
	if doomed && s.r.IntN(4) == 0 {
		after := time.Duration(s.r.IntN(400)) * time.Millisecond
		time.AfterFunc(after, func() { cancel(errCrash) })
	}
	s.slowStorage()
	stuck := time.AfterFunc(2*time.Minute, func() { cancel(errStuck) })
	defer stuck.Stop()
	j, err := NewJob(s.graph(), s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	return runMortal(ctx, j)
}

// runMortal runs a job on a goroutine of its own, which a point may end.
func runMortal(ctx context.Context, j *Job) error {
	done := make(chan error, 1)
	go func() {
		result := errCrash // what is left when the point ends the goroutine itself
		defer func() { done <- result }()
		result = j.Run(ctx)
	}()
	return <-done
}

// check recounts the input and compares (it knows nothing of the engine).
func (s *simulation) check() {
	want, got := map[string]int{}, map[string]int{}
	for _, p := range s.out.partitions["in"] {
		for _, k := range p {
			want[k]++
		}
	}
	for _, r := range s.out.committed {
		got[r.key]++
		if n, _ := strconv.Atoi(r.value); n != got[r.key] {
			s.t.Fatalf("seed %d: key %s has count %s after %d (crashes %v)", s.seed, r.key, r.value, got[r.key]-1, s.crashes)
		}
	}
	for k, n := range want {
		if got[k] != n {
			s.t.Errorf("seed %d: key %s was counted %d times, it occurs %d times (crashes %v)", s.seed, k, got[k], n, s.crashes)
		}
	}
	for name, tx := range s.out.txns {
		if tx.state == "open" {
			s.t.Errorf("seed %d: transaction %s is left open", s.seed, name)
		}
	}
	for _, what := range s.out.broken {
		s.t.Errorf("seed %d: %s", s.seed, what)
	}
}
