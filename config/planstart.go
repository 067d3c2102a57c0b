package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etl/checkpoint"
	"etl/pipeline"
	"etl/state"
	"etl/stream"
)

// PlanStart says what a start would find in storage and do with it.
type PlanStart struct {
	// Checkpoint is the newest published one, which would be restored: its id, or
	// empty when there is none and the job begins anew.
	Checkpoint string    `json:"checkpoint,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Published  time.Time `json:"published,omitzero"`
	Age        Duration  `json:"age,omitempty"`
	// Attempt is the number the start would get if nobody else starts before it.
	Attempt stream.Attempt `json:"attempt"`
	// ConfigChanged says that the pipeline file is not the one of the checkpoint.
	ConfigChanged bool         `json:"config_changed,omitempty"`
	Changes       []PlanChange `json:"changes,omitempty"`
	// Pending are prepared transactions that would be resolved before anything else.
	Pending []PlanPending `json:"pending,omitempty"`
	// Refused says why the checkpoint cannot be restored by this file; Fix what to do.
	Refused []string `json:"refused,omitempty"`
	Fix     string   `json:"fix,omitempty"`
}

// PlanChange is what becomes of what one component has stored.
type PlanChange struct {
	UID  stream.UID `json:"uid"`
	Fate string     `json:"fate"` // kept, new, dropped, refused
	Why  string     `json:"why,omitempty"`
	// Bytes is the size of its state in the checkpoint, Partitions the number of
	// positions of a source.
	Bytes      int64 `json:"bytes,omitempty"`
	Partitions int   `json:"partitions,omitempty"`
}

// PlanPending is one prepared transaction.
type PlanPending struct {
	Sink       stream.UID          `json:"sink"`
	Subtask    int                 `json:"subtask"`
	Checkpoint stream.CheckpointID `json:"checkpoint"`
	Rows       int64               `json:"rows"`
	// Left is the time until the outside system gives it up, negative when that has
	// passed; absent when it never does.
	Left    *Duration      `json:"left,omitempty"`
	Sources []stream.Range `json:"sources,omitempty"`
}

// planStart compares the job with what its storage holds.
func (j *Job) planStart(h *checkpoint.History, now time.Time, allowDropped []stream.UID) *PlanStart {
	s := &PlanStart{Attempt: 1}
	for _, e := range h.Entries {
		s.Attempt = max(s.Attempt, e.Attempt+1)
	}
	m := h.Newest()
	if m == nil {
		return s
	}
	s.Checkpoint, s.Kind, s.Published, s.Age = m.ID.String(), m.Kind, m.PublishedAt, Duration(now.Sub(m.PublishedAt).Round(time.Second))
	s.ConfigChanged = m.ConfigHash != "" && m.ConfigHash != j.ConfigHash
	if m.MaxParallelism != j.Spec.MaxParallelism {
		s.Refused = append(s.Refused, fmt.Sprintf("max_parallelism is %d and was %d when the job was begun: keys would belong to other key groups", j.Spec.MaxParallelism, m.MaxParallelism))
		s.Fix = fmt.Sprintf("set max_parallelism: %d", m.MaxParallelism)
	}
	for _, c := range j.Graph.Compare(m, allowDropped) {
		s.change(j, m, c)
	}
	for _, c := range h.Unresolved(m) {
		s.Pending = append(s.Pending, pending(c, now))
	}
	return s
}

// change adds what becomes of a component, unless it has nothing stored and never
// will.
func (s *PlanStart) change(j *Job, m *checkpoint.Metadata, c pipeline.Change) {
	out := PlanChange{UID: c.UID, Fate: c.Fate, Why: c.Why}
	for i := range m.Tasks {
		if t := &m.Tasks[i]; t.UID == c.UID {
			out.Partitions += len(t.Splits)
			for _, h := range t.Handles {
				out.Bytes += stored(h)
			}
		}
	}
	n := j.Graph.Node(c.UID)
	if n != nil && c.Fate != "refused" && (n.Sink != nil || n.Operator != nil && len(n.Operator.Keyed) == 0) {
		return
	}
	if c.Fate == "refused" {
		s.Refused = append(s.Refused, fmt.Sprintf("%s: %s", c.UID, c.Why))
		if s.Fix == "" {
			s.Fix = refusalFix(c.UID, n != nil)
		}
	}
	s.Changes = append(s.Changes, out)
	slices.SortStableFunc(s.Changes, func(a, b PlanChange) int { return strings.Compare(fateOrder(a.Fate), fateOrder(b.Fate)) })
}

// refusalFix says what to do about state that a component has no use for.
func refusalFix(uid stream.UID, exists bool) string {
	if exists {
		return fmt.Sprintf("keep the component as it was, or give it another uid: and drop the state with --allow-dropped-state %s", uid)
	}
	return fmt.Sprintf("give a component its old name with uid: %s, or drop the state with --allow-dropped-state %s", uid, uid)
}

func fateOrder(fate string) string {
	return map[string]string{"kept": "0", "new": "1", "dropped": "2"}[fate]
}

func stored(h state.Handle) int64 { return h.Size }

func pending(c checkpoint.Committable, now time.Time) PlanPending {
	p := PlanPending{Sink: c.Sink, Subtask: c.Subtask, Checkpoint: c.Checkpoint, Rows: c.Rows, Sources: c.Sources}
	if !c.Deadline.IsZero() {
		left := Duration(c.Deadline.Sub(now).Round(time.Second))
		p.Left = &left
	}
	return p
}
