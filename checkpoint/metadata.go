package checkpoint

import (
	"fmt"
	"sort"
	"time"

	"etl/state"
	"etl/stream"
)

// MetadataVersion is the version this binary writes; it reads all up to it.
const MetadataVersion = 1

// Metadata is everything that checkpoint n consists of: a restore needs this and
// the objects it names, and nothing else. It is the body of a checkpoint entry
// of the contested log (docs/formats/log.md).
type Metadata struct {
	Version int                 `json:"version"`
	Job     string              `json:"job"`
	Lineage stream.Lineage      `json:"lineage"`
	ID      stream.CheckpointID `json:"id"`
	// Previous is the published checkpoint before this one.
	Previous stream.CheckpointID `json:"previous"`
	// Kind is initial (checkpoint 0), periodic or final.
	Kind string `json:"kind"`
	// TriggeredAt and PublishedAt are times of the job's clock. Markers are
	// evidence only until PublishedAt + the store's retention (I10).
	TriggeredAt time.Time `json:"triggered_at"`
	PublishedAt time.Time `json:"published_at"`
	Mode        string    `json:"mode"`
	// MaxParallelism is the number of key groups, fixed for the life of a job.
	MaxParallelism int `json:"max_parallelism"`
	// ConfigHash tells whether the pipeline file changed; it refuses nothing.
	ConfigHash string `json:"config_hash"`
	// Operators describe the graph as far as stored state depends on it.
	Operators []OperatorMeta `json:"operators"`
	// Tasks hold the snapshots.
	Tasks []TaskState `json:"tasks"`
	// Committables lists what may be committed once this is published (I6).
	Committables []Committable `json:"committables,omitempty"`
	// ConfirmedThrough says, by "sink/subtask", up to which checkpoint all is
	// resolved and must not be asked about again (I11).
	ConfirmedThrough map[string]stream.CheckpointID `json:"confirmed_through,omitempty"`
	Statistics       Statistics                     `json:"statistics"`
}

// OperatorMeta describes one component to later starts of the job (V1).
type OperatorMeta struct {
	UID         stream.UID         `json:"uid"`
	Kind        string             `json:"kind"` // source | operator | sink
	Type        string             `json:"type"` // kafka, aggregate, ...
	Parallelism int                `json:"parallelism"`
	Keyed       []state.Descriptor `json:"keyed,omitempty"`
}

// TaskState is the snapshot of one subtask of one component.
type TaskState struct {
	stream.TaskID
	// Splits are the positions of a source subtask, every one it holds, read
	// from or not.
	Splits []stream.Split `json:"splits,omitempty"`
	// Handles are keyed state (base and segments), operator state and writer state.
	Handles []state.Handle `json:"handles,omitempty"`
	// Watermark is the subtask's at the barrier; absent before the first.
	Watermark *int64 `json:"watermark,omitempty"`
	// InFlight are the elements a barrier overtook, by input edge (unaligned).
	InFlight map[string][]state.Handle `json:"in_flight,omitempty"`
}

// Statistics say what a checkpoint cost; times in nanoseconds in JSON.
type Statistics struct {
	Duration  time.Duration `json:"duration"`
	Alignment time.Duration `json:"alignment"`
	Sync      time.Duration `json:"sync"`
	Persist   time.Duration `json:"persist"`
	// Delta is what the checkpoint wrote, Size what a restore reads, in bytes.
	Delta int64 `json:"delta"`
	Size  int64 `json:"size"`
}

// Objects calls f for every handle the checkpoint reaches in storage.
func (m *Metadata) Objects(f func(state.Handle)) {
	visit := func(hs []state.Handle) {
		for _, h := range hs {
			if h.Scope != state.Inline {
				f(h)
			}
		}
	}
	for i := range m.Tasks {
		visit(m.Tasks[i].Handles)
		for _, hs := range m.Tasks[i].InFlight {
			visit(hs)
		}
	}
	for i := range m.Committables {
		visit(m.Committables[i].Objects)
	}
}

// Splits returns the positions of all sources by UID, in order.
func (m *Metadata) Splits() map[stream.UID][]stream.Split {
	out := map[stream.UID][]stream.Split{}
	for i := range m.Tasks {
		if t := &m.Tasks[i]; len(t.Splits) > 0 {
			out[t.UID] = append(out[t.UID], t.Splits...)
		}
	}
	for _, s := range out {
		sort.Slice(s, func(i, j int) bool { return stream.CompareSplits(s[i], s[j]) < 0 })
	}
	return out
}

// Earliest returns the earliest deadline of the committables, zero for none.
func (m *Metadata) Earliest() (t time.Time) {
	for i := range m.Committables {
		if d := m.Committables[i].Deadline; !d.IsZero() && (t.IsZero() || d.Before(t)) {
			t = d
		}
	}
	return t
}

// CheckChains reports the first keyed chain that is not gapless (I7): segments
// of a task follow each other, the first one beginning at the end of its base or
// at nothing, the last one ending at this checkpoint.
func (m *Metadata) CheckChains() error {
	for i := range m.Tasks {
		if err := checkChain(m.ID, m.Tasks[i].Handles); err != nil {
			return fmt.Errorf("%s: %w", m.Tasks[i].TaskID, err)
		}
	}
	return nil
}

func checkChain(id stream.CheckpointID, hs []state.Handle) error {
	var segs []state.Handle
	end := stream.NoCheckpoint
	for _, h := range hs {
		switch h.Role {
		case state.BaseFile:
			end = h.To
		case state.Segment:
			segs = append(segs, h)
		}
	}
	if len(segs) == 0 {
		return nil // no keyed state, or a base that ends here (checked by the backend)
	}
	for _, s := range segs {
		if s.From != end || s.To <= s.From {
			return fmt.Errorf("segment (%s, %s] does not follow %s", s.From, s.To, end)
		}
		end = s.To
	}
	if end != id {
		return fmt.Errorf("chain ends at %s instead of %s", end, id)
	}
	return nil
}
