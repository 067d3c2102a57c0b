package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"etl/stream"
)

// History is the contested log as read at one moment: facts, no rights. Commands
// that only look use it; an [Attempt] is needed to change anything.
type History struct {
	Entries []Entry
}

// readTries is how often ReadHistory looks for a log that does not lose entries
// while it is read.
const readTries = 10

// ReadHistory reads the whole log. An unreadable entry is an error: what it
// decided cannot be guessed. When entries vanish meanwhile, a running attempt
// drops old ones: then newer ones may have come that were not seen, so it looks
// again.
func ReadHistory(ctx context.Context, st Storage) (*History, error) {
	for try := 1; ; try++ {
		h, whole, err := readHistory(ctx, st)
		if err != nil || whole || try == readTries {
			return h, err
		}
	}
}

func readHistory(ctx context.Context, st Storage) (h *History, whole bool, err error) {
	infos, err := st.List(ctx, logPrefix)
	if err != nil {
		return nil, false, storageError("read log", st, err)
	}
	h, whole = &History{}, true
	for _, in := range infos {
		e, err := readEntry(ctx, st, in.Name)
		if errors.Is(err, ErrNotFound) {
			whole = false
			continue
		}
		if err != nil {
			return nil, false, err
		}
		h.Entries = append(h.Entries, *e)
	}
	slices.SortFunc(h.Entries, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return h, whole, nil
}

func readEntry(ctx context.Context, st Storage, name string) (*Entry, error) {
	seq, err := entrySeq(name)
	if err != nil {
		return nil, stream.Errorf(stream.RestoreRefused, "log.foreign_object", "read log", name, "not an entry's name").
			WithFix("move the object away from %s: only the engine writes there", st.URL())
	}
	b, err := st.Get(ctx, name)
	if err != nil {
		return nil, storageError("read log", st, err)
	}
	e, err := decodeEntry(b)
	if err == nil && e.Seq != seq {
		err = fmt.Errorf("entry says it is number %d", e.Seq)
	}
	if err != nil {
		return nil, stream.Errorf(stream.RestoreRefused, "log.unreadable", "read log", name, "%w", err)
	}
	return e, nil
}

// storageError keeps ErrNotFound and ErrExists recognisable and makes everything
// else a failure that a later attempt may not meet.
func storageError(op string, st Storage, err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) {
		return err
	}
	return stream.Errorf(stream.Restart, "storage.failed", op, st.URL(), "%w", err)
}

// Next returns the sequence number after the highest entry.
func (h *History) Next() uint64 {
	if len(h.Entries) == 0 {
		return 1
	}
	return h.Entries[len(h.Entries)-1].Seq + 1
}

// Attempts returns the attempt entries in order.
func (h *History) Attempts() (out []Entry) {
	for _, e := range h.Entries {
		if e.Kind == EntryAttempt {
			out = append(out, e)
		}
	}
	return out
}

// Lineage returns the lineage of the job's current life: that of the first
// attempt after the last closed entry; zero when there is none.
func (h *History) Lineage() (l stream.Lineage) {
	for _, e := range h.Entries {
		switch e.Kind {
		case EntryAttempt:
			if l.IsZero() {
				l = e.Lineage
			}
		case EntryClosed:
			l = stream.Lineage{}
		}
	}
	return l
}

// Owners returns the numbers of the attempts of the current lineage below a, in
// order: those that recovery fences and cleans.
func (h *History) Owners(a stream.Attempt) (out []stream.Attempt) {
	l := h.Lineage()
	for _, e := range h.Attempts() {
		if e.Attempt < a && e.Lineage == l {
			out = append(out, e.Attempt)
		}
	}
	slices.Sort(out) // an entry that came too late (see Attempt.newest) has a number that is used again
	return slices.Compact(out)
}

// Last returns the highest attempt number used, 0 when there was none.
func (h *History) Last() (a stream.Attempt) {
	for _, e := range h.Entries {
		a = max(a, e.Attempt)
	}
	return a
}

// Published returns the published checkpoints of the current lineage that are
// not abandoned, oldest first. Their metadata must not be changed.
func (h *History) Published() (out []*Metadata) {
	l, gone := h.Lineage(), map[stream.CheckpointID]bool{}
	for _, e := range h.Entries {
		if e.Kind == EntryAbandoned {
			gone[e.Abandoned] = true
		}
	}
	for _, e := range h.Entries {
		if e.Kind == EntryCheckpoint && e.Metadata.Lineage == l && !gone[e.Metadata.ID] {
			out = append(out, e.Metadata)
		}
	}
	return out
}

// Checkpoints returns all checkpoints of the current lineage, oldest first, abandoned
// ones too. Their metadata must not be changed.
func (h *History) Checkpoints() (out []*Metadata) {
	l := h.Lineage()
	for _, e := range h.Entries {
		if e.Kind == EntryCheckpoint && e.Metadata.Lineage == l {
			out = append(out, e.Metadata)
		}
	}
	return out
}

// Accepted returns the newest checkpoint whose rows somebody accepted to be written
// again: a marker up to it is no contradiction to restoring an older one.
func (h *History) Accepted() (id stream.CheckpointID) {
	l := h.Lineage()
	for _, e := range h.Entries {
		if e.Kind == EntryAbandoned && e.Accepted && e.Lineage == l {
			id = max(id, e.Abandoned)
		}
	}
	return id
}

// Newest returns the newest published checkpoint, nil when there is none.
func (h *History) Newest() *Metadata {
	p := h.Published()
	if len(p) == 0 {
		return nil
	}
	return p[len(p)-1]
}

// Find returns the published checkpoint with the id, nil when there is none.
func (h *History) Find(id stream.CheckpointID) *Metadata {
	for _, m := range h.Published() {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// Confirmed returns, by lane, up to which checkpoint everything is durably noted
// as resolved: the maximum over confirmed entries and metadata (I11).
func (h *History) Confirmed() map[stream.TaskID]stream.CheckpointID {
	out := map[stream.TaskID]stream.CheckpointID{}
	l := h.Lineage()
	add := func(m map[string]stream.CheckpointID) {
		for lane, id := range m {
			if t, err := parseLane(lane); err == nil {
				out[t] = max(out[t], id)
			}
		}
	}
	for _, e := range h.Entries {
		switch {
		case e.Kind == EntryConfirmed && e.Lineage == l:
			add(e.Confirmed)
		case e.Kind == EntryCheckpoint && e.Metadata.Lineage == l:
			add(e.Metadata.ConfirmedThrough)
		}
	}
	return out
}

// Unresolved returns the committables of m that are not noted as resolved.
func (h *History) Unresolved(m *Metadata) (out []Committable) {
	done := h.Confirmed()
	for _, c := range m.Committables {
		if c.Checkpoint > done[c.Lane()] {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, CompareCommittables)
	return out
}

// parseLane reads TaskID.String.
func parseLane(s string) (t stream.TaskID, err error) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return t, fmt.Errorf("lane %q is not of the form sink/subtask", s)
	}
	t.UID = stream.UID(s[:i])
	_, err = fmt.Sscanf(s[i+1:], "%d", &t.Subtask)
	return t, err
}

// Lanes turns resolutions into the form that entries hold.
func Lanes(m map[stream.TaskID]stream.CheckpointID) map[string]stream.CheckpointID {
	out := make(map[string]stream.CheckpointID, len(m))
	for t, id := range m {
		out[t.String()] = id
	}
	return out
}
