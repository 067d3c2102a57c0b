package simtest

import (
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/pipeline"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// newJob makes the job in a process.
func (s *sim) newJob(p *process, takeOver bool) (*pipeline.Job, error) {
	o, err := s.options(p, dataDir)
	if err != nil {
		return nil, err
	}
	o.TakeOver = takeOver
	return pipeline.NewJob(s.graph("count"), o)
}

// dataDir is where the job's checkpoints are.
const dataDir = "/data/sim"

func (s *sim) options(p *process, dir string) (o pipeline.Options, err error) {
	st, err := p.storage(dir)
	if err != nil {
		return o, err
	}
	o = pipeline.Options{World: p.world(), Storage: st, Policy: s.plan.policy, Seed: s.seed + uint64(s.processes),
		Restart:       pipeline.RestartStrategy{Initial: 10 * time.Millisecond, Max: 2 * time.Second},
		DiscoverEvery: 300 * time.Millisecond, Listener: s.listener(p), NewBackend: func(e pipeline.BackendEnv) (state.Backend, error) { return s.newBackend(p, e) }}
	o.Holder.Host = p.name
	return o, nil
}

func (s *sim) newBackend(p *process, e pipeline.BackendEnv) (state.Backend, error) {
	var b state.Backend
	var err error
	if p.base == nil {
		b = keyed.NewMemory(keyed.MemoryConfig{Lineage: e.Lineage, MaxParallelism: e.MaxParallelism, Policy: s.plan.chains})
	} else {
		b, err = p.base.backend(p, e)
	}
	if err != nil {
		return nil, err
	}
	return &countedBackend{Backend: b, s: s}, nil
}

// countedBackend adds the backend's numbers to the coverage when it ends.
type countedBackend struct {
	state.Backend
	s *sim
}

func (b *countedBackend) Close() error {
	st := b.Stats()
	for name, n := range map[string]int64{
		"materializations": st.Materializations, "segments replayed": st.SegmentsReplayed, "bases reused": st.BasesReused,
		"bases discarded": st.BasesDiscarded, "spilled": st.Spilled, "base reads": st.BaseReads,
	} {
		b.s.cov.addN("state/"+name, n)
	}
	return b.Backend.Close()
}

// listener counts what the engine says it does.
func (s *sim) listener(p *process) *stream.Listener {
	return &stream.Listener{
		Checkpoint: func(e stream.CheckpointEvent) {
			s.cov.add("checkpoint/" + e.Phase)
			if e.Phase == "aborted" {
				s.cov.add("checkpoint/aborted: " + e.Reason)
			}
		},
		Part: func(e stream.PartEvent) {
			if e.Part == "align" && e.Took > 0 {
				s.cov.add("checkpoint/alignments")
			}
		},
		Commit: func(e stream.CommitEvent) {
			s.cov.add("commit/" + e.Outcome)
			if e.Recovery {
				s.cov.add("commit/re-committed")
			}
			if e.ByMarker {
				s.cov.add("commit/resolved by marker")
			}
		},
		Job: func(e stream.JobEvent) {
			s.cov.add("job/" + e.Phase)
		},
	}
}

// baseDisk is the disk of the local state base of a process.
type baseDisk struct {
	fs *vfs.MemFS
}

// newBaseDisk returns an empty disk, nil for jobs whose state is in memory only.
func newBaseDisk(wanted bool) *baseDisk {
	if !wanted {
		return nil
	}
	return &baseDisk{fs: vfs.NewCrashableMem()}
}

// crash returns the disk as the next process finds it.
func (b *baseDisk) crash(power bool, r *rand.Rand) *baseDisk {
	if b == nil {
		return nil
	}
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r}
	if power {
		cfg.UnsyncedDataPercent = pick(r, 0, 50)
	}
	return &baseDisk{fs: b.fs.CrashClone(cfg)}
}
