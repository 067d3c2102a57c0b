package pipeline

import (
	"cmp"
	"context"
	"time"

	"etl/checkpoint"
	"etl/state"
	"etl/stream"
)

// Options say how a job runs. The zero value of a field means its default.
type Options struct {
	World    stream.World
	Listener *stream.Listener
	Policy   checkpoint.Policy
	// Storage holds the job's log and objects.
	Storage checkpoint.Storage
	// NewBackend makes the state backend of an attempt; nil when no component has
	// keyed state.
	NewBackend func(BackendEnv) (state.Backend, error)
	Restart    RestartStrategy
	Restore    RestoreOptions
	// TakeOver starts although another process holds the job, and fences it.
	TakeOver bool
	// DeleteOnCancel deletes all checkpoints when the job is cancelled, once all
	// is confirmed (on_cancel: delete).
	DeleteOnCancel bool
	// DiscoverEvery is how often sources look for new splits; default 30s.
	DiscoverEvery time.Duration
	// ConfigHash is kept in metadata, to tell whether the file has changed.
	ConfigHash string
	// Holder describes this process to others that want the job.
	Holder checkpoint.Holder
	// Seed is that of the tasks' random sources; 0 draws one.
	Seed uint64
}

// BackendEnv is what a backend is made with.
type BackendEnv struct {
	World          stream.World
	Job            string
	Lineage        stream.Lineage
	Attempt        stream.Attempt
	MaxParallelism int
	Objects        state.Objects
	Counters       *stream.Counters
}

// RestoreOptions say from where a job starts.
type RestoreOptions struct {
	// From is the checkpoint to start from; NoCheckpoint: the newest.
	From stream.CheckpointID
	// Empty starts without state although there are checkpoints. What they had
	// prepared is resolved first.
	Empty bool
	// AcceptDuplicates allows From to be older than what the sinks have committed.
	AcceptDuplicates bool
	// AllowDropped lists the components whose stored state may be dropped.
	AllowDropped []stream.UID
}

// RestartStrategy is the pause before another attempt: it doubles from Initial to
// Max, and begins again when an attempt has run for ResetAfter.
type RestartStrategy struct {
	Initial    time.Duration // default 1s
	Max        time.Duration // default 2m
	ResetAfter time.Duration // default 10m
	// Attempts is the number of restarts after which the job fails; 0 for no end,
	// NoRestart for none.
	Attempts int
}

// NoRestart as RestartStrategy.Attempts returns the first error.
const NoRestart = -1

func (s RestartStrategy) withDefaults() RestartStrategy {
	s.Initial = cmp.Or(s.Initial, time.Second)
	s.Max = cmp.Or(s.Max, 2*time.Minute)
	s.ResetAfter = cmp.Or(s.ResetAfter, 10*time.Minute)
	return s
}

func (o Options) withDefaults() Options {
	o.Policy = o.Policy.WithDefaults()
	o.Restart = o.Restart.withDefaults()
	o.DiscoverEvery = cmp.Or(o.DiscoverEvery, 30*time.Second)
	return o
}

// Controller is what a running job can be asked from outside: the control socket
// and signals use it.
type Controller interface {
	// Stop takes a final checkpoint, commits and confirms it, and ends the job.
	Stop()
	// Cancel ends the job now, and the attempt's own open transactions with it: what is
	// published is committed, the rest aborted.
	Cancel()
	// Checkpoint triggers one and waits until it is confirmed.
	Checkpoint(ctx context.Context) (stream.CheckpointID, error)
	// Status describes the job.
	Status() Status
}

// Status describes a running job.
type Status struct {
	Job     string         `json:"job"`
	Phase   string         `json:"phase"`
	Attempt stream.Attempt `json:"attempt"`
	Lineage stream.Lineage `json:"lineage"`
	// Restored is the checkpoint the attempt began from, Published and Confirmed
	// the newest ones, Failing the consecutive aborted ones. Error is why the last of
	// these was aborted, or the attempt before has ended.
	Restored  stream.CheckpointID `json:"restored"`
	Published stream.CheckpointID `json:"published"`
	Confirmed stream.CheckpointID `json:"confirmed"`
	Failing   int                 `json:"failing"`
	Restarts  int                 `json:"restarts"`
	Error     string              `json:"error,omitempty"`
}
