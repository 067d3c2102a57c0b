package pebbledb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state"
	"etl/state/keyed"
	"etl/state/pebbledb"
	"etl/state/statetest"
	"etl/stream"
)

// job drives several operators on one backend, each with one subtask unless
// parallel says otherwise.
type job struct {
	t       *testing.T
	fs      vfs.FS
	storage *statetest.Storage
	attempt stream.Attempt
	b       *pebbledb.Backend
	stores  map[stream.TaskID]state.Store
	id      stream.CheckpointID
	// parallel is the number of subtasks of operators that have not 1.
	parallel map[stream.UID]int
	memory   int64 // the budget; by default all that may leave memory does
	full     bool  // checkpoints are self-contained
	quiet    bool  // the backend does not hear that they are complete
}

func (j *job) start(from stream.CheckpointID, keyedState map[stream.UID][]state.Handle, uids ...stream.UID) {
	j.t.Helper()
	j.attempt++
	j.id = stream.NewCheckpointID(j.attempt, 0)
	var err error
	j.b, err = pebbledb.New(pebbledb.Config{
		World: stream.SystemWorld(nil), FS: j.fs, Dir: "/state", Lineage: stream.Lineage{5}, Attempt: j.attempt,
		Memory: max(1, j.memory),
		Policy: keyed.Policy{SegmentBytes: 1, SegmentCount: 1, Base: true, Full: j.full},
	})
	must(j.t, err)
	must(j.t, j.b.Restore(context.Background(), state.Restored{ID: from, Keyed: keyedState, Objects: j.storage}))
	j.stores = map[stream.TaskID]state.Store{}
	for _, uid := range uids {
		p := max(1, j.parallel[uid])
		for i := range p {
			task := stream.TaskID{UID: uid, Subtask: i}
			j.stores[task], err = j.b.Open(context.Background(), state.Spec{
				Task: task, KeyGroups: stream.RangeOf(i, p, stream.DefaultMaxParallelism), Descriptors: []state.Descriptor{statetest.Descriptor},
			})
			must(j.t, err)
		}
	}
}

func (j *job) stop() {
	var err error
	for _, s := range j.stores {
		err = errors.Join(err, s.Close())
	}
	must(j.t, errors.Join(err, j.b.Close()))
}

// ref looks one key up.
func (j *job) ref(uid stream.UID, key string) state.Ref {
	j.t.Helper()
	refs, hash := make([]state.Ref, 1), stream.Hash([]byte(key))
	task := stream.TaskID{UID: uid, Subtask: stream.SubtaskOf(stream.KeyGroupOf(hash, stream.DefaultMaxParallelism), max(1, j.parallel[uid]), stream.DefaultMaxParallelism)}
	must(j.t, j.stores[task].Batch(context.Background(), [][]byte{[]byte(key)}, []uint64{hash}, refs))
	return refs[0]
}

func (j *job) set(uid stream.UID, key, value string) { j.ref(uid, key).Set([]byte(value)) }

func (j *job) get(uid stream.UID, key string) string {
	v, ok := j.ref(uid, key).Get()
	if !ok {
		return "absent"
	}
	return string(v)
}

// checkpoint takes a complete one, task after task, and waits until the base has what it
// gets.
func (j *job) checkpoint() map[stream.UID][]state.Handle {
	j.t.Helper()
	j.id++
	out := map[stream.UID][]state.Handle{}
	snaps := map[stream.TaskID]state.Snapshot{}
	tasks := slices.SortedFunc(maps.Keys(j.stores), stream.CompareTasks)
	for _, task := range tasks {
		s := j.stores[task]
		snap, err := s.Snapshot(j.id)
		must(j.t, err)
		snaps[task] = snap
		for more := true; more; {
			more, err = s.Slice()
			must(j.t, err)
		}
	}
	for _, task := range tasks {
		hs, err := snaps[task].Persist(context.Background(), j.storage.Uploader(j.attempt))
		must(j.t, err)
		snaps[task].Release(true)
		out[task.UID] = append(out[task.UID], hs...)
	}
	if !j.quiet {
		j.b.Completed(j.id)
		j.b.Rest()
	}
	return out
}

// TestDroppedOperator: the state of an operator that was dropped does not come
// back when one with the same uid is added later, although the base had it.
func TestDroppedOperator(t *testing.T) {
	j := &job{t: t, fs: vfs.NewMem(), storage: statetest.NewStorage()}
	j.start(0, nil, "a", "b")
	j.set("a", "k", "a1")
	j.set("b", "k", "b1")
	var hs map[stream.UID][]state.Handle
	for range 4 {
		hs = j.checkpoint()
	}
	if hs["b"][0].Role != state.BaseFile {
		t.Fatal("no base was made")
	}
	from := j.id
	j.stop()

	for _, fs := range []vfs.FS{j.fs, vfs.NewMem()} { // with the local base, and from storage
		k := &job{t: t, fs: fs, storage: j.storage.Clone(), attempt: 10}
		k.start(from, map[stream.UID][]state.Handle{"a": hs["a"]}, "a", "b")
		if got := k.get("a", "k"); got != "a1" {
			t.Errorf("a is %s", got)
		}
		if got := k.get("b", "k"); got != "absent" {
			t.Errorf("b is %s at first", got)
		}
		k.set("b", "other", "x")
		for range 4 {
			k.checkpoint()
			k.set("b", "more", "x")
		}
		if got := k.get("b", "k"); got != "absent" {
			t.Errorf("b is %s after its state has been to the base", got)
		}
		k.stop()
	}
}

// TestRescaleOne: when one operator is rescaled, the chains of all that live in
// the base begin on the same new one, and nobody's marks are mixed up.
func TestRescaleOne(t *testing.T) {
	j := &job{t: t, fs: vfs.NewMem(), storage: statetest.NewStorage(), parallel: map[stream.UID]int{"a": 1, "b": 2}}
	keys := []string{"one", "two", "three", "four", "five", "six"}
	var hs map[stream.UID][]state.Handle
	var from stream.CheckpointID
	for attempt, p := range []int{1, 3, 2, 2, 1} {
		j.parallel["a"] = p
		j.start(from, hs, "a", "b")
		for round := range 3 {
			for i, k := range keys {
				n := attempt*3 + round
				want := fmt.Sprint(n - 1)
				if n == 0 {
					want = "absent"
				}
				for _, uid := range []stream.UID{"a", "b"} {
					if i == 0 && uid == "b" { // not written again: it stays where it is
						want = "0"
						if n == 0 {
							want = "absent"
						}
					}
					if got := j.get(uid, k); got != want {
						t.Fatalf("attempt %d, round %d: %s of %s is %s instead of %s", attempt, round, k, uid, got, want)
					}
					if i > 0 || uid == "a" || n == 0 {
						j.set(uid, k, fmt.Sprint(n))
					}
				}
			}
			hs, from = j.checkpoint(), j.id
			base := ""
			for _, h := range append(slices.Clone(hs["a"]), hs["b"]...) {
				if h.Role == state.BaseFile && base != "" && h.Base != base {
					t.Fatalf("attempt %d: two bases, %s and %s", attempt, base, h.Base)
				} else if h.Role == state.BaseFile {
					base = h.Base
				}
			}
		}
		if s := j.b.Stats(); s.Materializations == 0 {
			t.Errorf("attempt %d: no base was made", attempt)
		}
		j.stop()
		if attempt%2 == 0 {
			j.fs = vfs.NewMem()
		}
	}
}

// TestForeignBase: a local base that is ahead, because its branch was abandoned,
// is not used (I19). The build that breaks the rule fails here.
func TestForeignBase(t *testing.T) {
	j := &job{t: t, fs: vfs.NewMem(), storage: statetest.NewStorage()}
	j.start(0, nil, "a")
	j.set("a", "k", "old")
	old := j.checkpoint()
	from := j.id
	j.set("a", "k", "abandoned")
	j.checkpoint()
	j.checkpoint()
	j.stop()

	j.start(from, old, "a")
	defer j.stop()
	got, s := j.get("a", "k"), j.b.Stats()
	if got != "old" || s.BasesReused != 0 || s.BasesDiscarded != 1 {
		t.Errorf("%s, %+v", got, s)
	}
}

// TestTwoBackends: a base that another process has open is neither used nor
// deleted.
func TestTwoBackends(t *testing.T) {
	j := &job{t: t, fs: vfs.NewMem(), storage: statetest.NewStorage()}
	j.start(0, nil, "a")
	j.set("a", "k", "v")
	j.checkpoint()
	hs := j.checkpoint()
	k := &job{t: t, fs: j.fs, storage: j.storage, attempt: 10}
	k.start(j.id, hs, "a")
	if got := k.get("a", "k"); got != "v" {
		t.Errorf("the second process has %s", got)
	}
	if s := k.b.Stats(); s.BasesReused != 0 {
		t.Errorf("%+v", s)
	}
	j.set("a", "k", "w") // the first one is not disturbed
	j.checkpoint()
	j.checkpoint()
	if got := j.get("a", "k"); got != "w" {
		t.Errorf("the first process has %s", got)
	}
	k.stop()
	j.stop()
}

// TestBaseWithoutStore: an operator whose first changes are on their way to the base
// when it is stored anew for another that was rescaled does not begin its chain on
// it: nothing of it is in there.
func TestBaseWithoutStore(t *testing.T) {
	j := &job{t: t, fs: vfs.NewMem(), storage: statetest.NewStorage(), parallel: map[stream.UID]int{"a": 1}}
	j.start(0, nil, "a")
	j.set("a", "k", "a1")
	hs, from := j.checkpoint(), j.id
	j.stop()
	j.parallel["a"] = 2
	j.start(from, hs, "a", "b")
	defer j.stop()
	for range 2 { // what there is counts from the next batch
		j.set("b", "k", "b1")
	}
	hs = j.checkpoint()
	if hs["a"][0].Role != state.BaseFile || hs["b"][0].Role != state.Segment {
		t.Errorf("a begins with a %s, b with a %s", hs["a"][0].Role, hs["b"][0].Role)
	}
}
