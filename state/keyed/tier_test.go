package keyed_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"etl/state"
	"etl/state/statetest"
	"etl/stream"
)

const (
	shelfKeys = 40
	groups    = 8
)

var tables = []state.Descriptor{
	{Name: "count", Kind: "value", Serializer: "bytes"}, {Name: "sum", Kind: "value", Serializer: "bytes"},
}

// shop is a job of one operator: its subtasks, and what was stored of them.
type shop struct {
	*rapid.T
	full      bool // checkpoints are self-contained
	long      []int
	storage   *statetest.Storage
	up        state.Uploader
	copies    map[string]map[string][]byte // bases in storage, by name
	shelves   []*shelf
	attempt   stream.Attempt
	number    uint32
	open      []*cut
	published []published
	completed stream.CheckpointID
	values    int
	spilled   int
}

// cut is a checkpoint under way: the snapshots of all shelves.
type cut struct {
	id    stream.CheckpointID
	snaps []state.Snapshot
	want  []map[string]string
}

type published struct {
	id   stream.CheckpointID
	hs   []state.Handle
	want map[string]string
}

func (s *shop) pick(label string, n int) int { return statetest.Pick(s.T, label, n) }

func (s *shop) must(err error) {
	if err != nil {
		s.Helper()
		s.Fatal(err)
	}
}

func (s *shop) barrier() {
	if len(s.open) == 2 {
		return
	}
	s.number++
	c := &cut{id: stream.NewCheckpointID(s.attempt, s.number)}
	for _, f := range s.shelves {
		f.ledge.capture = s.pick("capture", 2) == 0
		snap, err := f.Snapshot(c.id)
		s.must(err)
		c.snaps, c.want = append(c.snaps, snap), append(c.want, maps.Clone(f.live))
		clear(f.dirty)
	}
	s.open = append(s.open, c)
}

// persist ends the oldest checkpoint. What the chain of a subtask restores must be
// what was there at its barrier, whatever becomes of the checkpoint.
func (s *shop) persist() {
	if len(s.open) == 0 {
		return
	}
	c := s.open[0]
	s.open = s.open[1:]
	p, aborted := published{id: c.id, want: map[string]string{}}, false
	for i, f := range s.shelves {
		for len(s.open) == 0 && f.slice() {
		}
		if s.pick("upload fails", 6) == 0 {
			s.storage.FailAppends = 1
		}
		hs, err := c.snaps[i].Persist(context.Background(), s.up)
		s.storage.FailAppends = 0
		if err != nil && !errors.Is(err, statetest.ErrInjected) {
			s.Fatal(err)
		}
		if err == nil {
			s.restored(published{c.id, hs, c.want[i]}, f.groups, nil).drop()
		}
		acknowledged := err == nil && s.pick("acknowledged", 4) > 0
		c.snaps[i].Release(acknowledged)
		aborted = aborted || !acknowledged
		p.hs = append(p.hs, hs...)
		maps.Copy(p.want, c.want[i])
	}
	if !aborted && s.pick("aborted elsewhere", 6) > 0 {
		s.published = append(s.published, p)
		s.completed = c.id
	}
}

// step does one thing.
func (s *shop) step() {
	f := s.shelves[s.pick("shelf", len(s.shelves))]
	switch s.pick("step", 24) {
	case 0, 1, 2, 3, 4, 5, 6:
		f.batch()
	case 7, 8, 9:
		s.barrier()
	case 10, 11, 12, 13, 14:
		f.slice()
	case 15, 16, 17:
		s.persist()
	case 18, 19, 20:
		f.ledge.apply(s.T, s.pick("applied", 4) > 0)
	case 21:
		f.ledge.materialize()
	case 22:
		f.walk()
	case 23:
		if s.pick("restart", 3) == 0 {
			s.restart()
		}
	}
}

// end gives up what is under way.
func (s *shop) end() {
	for len(s.open) > 0 {
		s.persist()
	}
	for _, f := range s.shelves {
		f.drop()
	}
}

// TestTiers: whenever a capture reaches the base, between which slices of which
// snapshot, and whenever the base is copied, what is in the cache, the scratch and
// the base is what was put there, and every snapshot restores to what was there at
// its barrier.
func TestTiers(t *testing.T) {
	total := 0
	rapid.Check(t, func(r *rapid.T) {
		s := &shop{T: r, storage: statetest.NewStorage(), copies: map[string]map[string][]byte{}}
		s.full, s.long = s.pick("full", 2) == 0, []int{1, 8, 300, 5000, 40_000}
		if s.pick("long", 12) == 0 {
			s.long = append(s.long, 8, 8, 8, 300, 300, 5000, 700_000, 1<<20+1, 3<<20)
		}
		s.begin(published{}, 1+s.pick("parallelism", 2), false)
		for range 80 {
			s.step()
		}
		s.end()
		total += s.spilled
	})
	if total == 0 {
		t.Error("nothing was spilled")
	}
}
