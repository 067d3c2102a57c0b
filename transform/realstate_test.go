package transform

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"etl/state"
	"etl/state/keyed"
	"etl/state/statetest"
	"etl/stream"
)

// storeOf opens the keyed state of a task on the memory backend.
func storeOf(t testing.TB, d []state.Descriptor, from state.Restored) state.Store {
	t.Helper()
	backend := keyed.NewMemory(keyed.MemoryConfig{Lineage: stream.Lineage{1}})
	if err := backend.Restore(context.Background(), from); err != nil {
		t.Fatal(err)
	}
	s, err := backend.Open(context.Background(), state.Spec{Task: stream.TaskID{UID: "agg"}, Descriptors: d,
		KeyGroups: stream.KeyGroupRange{To: stream.DefaultMaxParallelism}, Counters: &stream.Counters{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); backend.Close() })
	return s
}

// checkpointOf seals the epoch and makes it durable.
func checkpointOf(t testing.TB, s state.Store, storage *statetest.Storage, id stream.CheckpointID) state.Restored {
	t.Helper()
	snap, err := s.Snapshot(id)
	for more := err == nil; more && err == nil; {
		more, err = s.Slice()
	}
	if err != nil {
		t.Fatal(err)
	}
	handles, err := snap.Persist(context.Background(), storage.Uploader(id.Attempt()))
	snap.Release(err == nil)
	if err != nil {
		t.Fatal(err)
	}
	return state.Restored{ID: id, Keyed: map[stream.UID][]state.Handle{"agg": handles}, Objects: storage}
}

// TestAggregateOnRealState feeds the same records to an aggregate over the keyed
// cache, which is closed and restored in the middle, and to one over a plain map.
func TestAggregateOnRealState(t *testing.T) {
	a, storage := sales(t, OnCheckpoint), statetest.NewStorage()
	keyer := NewKeyer(a.Key)
	oracle := newFakeKeyed()
	want, real := opened(t, a.New(), oracle), state.Restored{}
	for epoch := range 3 {
		store := storeOf(t, a.Descriptors(), real)
		got := opened(t, a.New(), store)
		var recs []string
		for i := range 2000 {
			recs = append(recs, fmt.Sprintf(`{"user":%d,"kind":"%s","price":%d.%d,"qty":%d}`, i*(epoch+3)%700, []string{"buy", "pv", "x", "longer than before"}[(i+epoch)%4], i, i%7, i%5))
		}
		keyedRun(t, keyer, want, input(recs...))
		keyedRun(t, keyer, got, input(recs...))
		id := stream.NewCheckpointID(stream.Attempt(epoch+1), 1)
		a, _ := barrier(t, want, id)
		b, _ := barrier(t, got, id)
		slices.Sort(a)
		slices.Sort(b)
		if len(a) == 0 || !slices.Equal(a, b) {
			t.Fatalf("epoch %d: %d and %d values, first %s and %s", epoch, len(a), len(b), a[0], b[0])
		}
		oracle.snapshot()
		real = checkpointOf(t, store, storage, id)
	}
}

const (
	manyKeys  = 1_000_000
	keyStride = 7919 * 13
)

// BenchmarkCountMillionKeys counts over a million keys, every update written, on
// the keyed cache. Keys are made on the spot: a source's are in the processor's
// cache, too.
func BenchmarkCountMillionKeys(b *testing.B) {
	d := CountText(OnCheckpoint)
	store := storeOf(b, d.Descriptors(), state.Restored{})
	op := opened(b, d.New(), store)
	keyer, out := RecordKey(), discard{b}
	next := 0
	once := func() {
		batch := stream.NewBatch(nil)
		for range batchSize {
			batch.Append(stream.Record{Key: strconv.AppendInt(batch.Alloc(20)[:0], int64(next)*104729, 10)})
			next = (next + keyStride) % manyKeys
		}
		if err := keyer.Key(batch, nil); err != nil {
			b.Fatal(err)
		}
		if err := op.Process(context.Background(), batch, out); err != nil {
			b.Fatal(err)
		}
		batch.Release()
	}
	for range manyKeys/batchSize + 1 {
		once()
	}
	defer cpu(b, batchSize)()
	for b.Loop() {
		once()
	}
}

// BenchmarkCountMillionKeysFloor is a plain Go map in the same loop.
func BenchmarkCountMillionKeysFloor(b *testing.B) {
	counts, k, next := map[string]*int64{}, []byte(nil), 0
	once := func() {
		for range batchSize {
			k = strconv.AppendInt(k[:0], int64(next)*104729, 10)
			next = (next + keyStride) % manyKeys
			if c := counts[string(k)]; c != nil {
				*c++
			} else {
				counts[string(k)] = new(int64)
			}
		}
	}
	for range manyKeys/batchSize + 1 {
		once()
	}
	defer cpu(b, batchSize)()
	for b.Loop() {
		once()
	}
}
