package keyed

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"etl/state"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClasses: every size has the smallest class that holds it, with at most an
// eighth of slack.
func TestClasses(t *testing.T) {
	for n := 1; n <= 1<<20; n += 1 + n/97 {
		c := classOf(n)
		if c == 0 {
			t.Fatalf("%d bytes have no class", n)
		}
		if size := int(classSize[c]); size < n || c > 1 && int(classSize[c-1]) >= n || n > 128 && size-n > n/8 {
			t.Fatalf("%d bytes are in class %d of %d bytes", n, c, size)
		}
	}
	if classOf(1<<20+1) != 0 || classSize[maxClass] != 1<<20 {
		t.Error("the largest class is not 1 MiB")
	}
}

// TestKeyOrder: full keys sort as user keys do, come back as they were, and none
// is a prefix of another.
func TestKeyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xfe, 0xff}), 0, 12)
		x, y := part.Draw(t, "x"), part.Draw(t, "y")
		c := keyCoder{state: 7, parallel: 128}
		fx, fy := c.append(nil, 3, x), c.append(nil, 3, y)
		if len(fx) != c.size(x) {
			t.Fatalf("size %d of %x", c.size(x), fx)
		}
		if bytes.Compare(fx, fy) != bytes.Compare(x, y) {
			t.Fatalf("%x and %x sort as %x and %x", x, y, fx, fy)
		}
		if !bytes.Equal(x, y) && (bytes.HasPrefix(fx, fy) || bytes.HasPrefix(fy, fx)) {
			t.Fatalf("%x and %x: one is a prefix", fx, fy)
		}
		g, s, key, err := splitKey(fx, make([]byte, 0, 4))
		if err != nil || g != 3 || s != 7 || !bytes.Equal(key, x) {
			t.Fatalf("%x came back as %d %d %x, %v", x, g, s, key, err)
		}
		from, to := StateRange(3, 7)
		if bytes.Compare(fx, from) < 0 || bytes.Compare(fx, to) >= 0 {
			t.Fatalf("%x is not in [%x, %x)", fx, from, to)
		}
	})
}

// TestIndex holds a million keys, so that pages split and the directory doubles,
// and removes half of them again.
func TestIndex(t *testing.T) {
	const n = 1_000_000
	s := benchStore(t, NewBudget(0))
	a := newAdder(s, 64)
	a.fill(t, n, 8)
	tab := s.tables[0]
	if tab.n != n {
		t.Fatalf("%d entries", tab.n)
	}
	deleted := func(id uint32) bool { return mix(uint64(id))%2 == 0 }
	a.visit(t, n, func(id uint32, r state.Ref) {
		if deleted(id) {
			r.Delete()
		}
	})
	a.checkpoint(t, 1, &sinkhole{})
	left := 0
	a.visit(t, n, func(id uint32, r state.Ref) {
		if _, ok := r.Get(); ok == deleted(id) {
			t.Fatalf("key %d: %v", id, ok)
		} else if ok {
			left++
		}
	})
	if _ = tab.begin(); tab.n != left {
		t.Errorf("%d entries in the index of %d keys", tab.n, left)
	}
}

// visit looks up the keys of 0 to n-1.
func (a *adder) visit(tb testing.TB, n int, f func(id uint32, r state.Ref)) {
	for i := 0; i < n; i += len(a.keys) {
		m := min(len(a.keys), n-i)
		for j := range m {
			a.store[j] = keyOf(uint32(i + j))
			a.hashes[j] = stream.Hash(a.keys[j])
		}
		if err := a.s.Batch(context.Background(), a.keys[:m], a.hashes[:m], a.refs[:m]); err != nil {
			tb.Fatal(err)
		}
		for j := range m {
			f(uint32(i+j), a.refs[j])
		}
	}
}

// TestCompact: when values have changed their size, the memory of the old ones is
// given back, and nothing is lost, with a copy-out going on meanwhile.
func TestCompact(t *testing.T) {
	const n = 100_000
	s := benchStore(t, NewBudget(0))
	a := newAdder(s, 64)
	a.fill(t, n, 400)
	full := s.tables[0].total
	up := &sinkhole{}
	a.checkpoint(t, 1, up)
	a.visit(t, n, func(id uint32, r state.Ref) {
		if id%10 != 0 {
			r.Delete()
		}
	})
	a.checkpoint(t, 2, up)
	snap, err := s.Snapshot(stream.NewCheckpointID(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		a.visit(t, n, func(id uint32, r state.Ref) {
			v, ok := r.Get()
			if ok != (id%10 == 0) || ok && binary.LittleEndian.Uint64(v) < 1 {
				t.Fatalf("round %d, key %d: %v %x", round, id, ok, v)
			}
			if ok && id%30 == 0 {
				binary.LittleEndian.PutUint64(r.Mutable(400), uint64(round+2))
			}
		})
		if _, err := s.Slice(); err != nil {
			t.Fatal(err)
		}
	}
	snap.Release(false)
	if now := s.tables[0].total; now > full/2 {
		t.Errorf("%d of %d bytes are still held", now, full)
	}
	dirty := 0
	for pos, more := 0, true; more; {
		pos, more = s.Dirty(pos, func(key, value []byte, ok bool) bool {
			if dirty++; !ok || binary.LittleEndian.Uint64(value) != 21 {
				t.Fatalf("dirty key %x: %v %x", key, ok, value[:8])
			}
			return true
		})
	}
	if dirty != (n+29)/30 {
		t.Errorf("%d dirty keys", dirty)
	}
}

// TestNoAllocations: neither a batch of known keys nor its changes allocate.
func TestNoAllocations(t *testing.T) {
	s := benchStore(t, NewBudget(0))
	a := newAdder(s, 64)
	a.fill(t, 10_000, 8)
	ids := draws(10_000, 64, false)
	a.checkpoint(t, 1, &sinkhole{})
	a.add(t, ids, 8)
	if n := testing.AllocsPerRun(100, func() { a.add(t, ids, 8) }); n > 0 {
		t.Errorf("%v allocations in a batch of 64", n)
	}
}

// TestStates: an operator's states do not see each other, and share snapshots.
func TestStates(t *testing.T) {
	spec := state.Spec{
		Task: stream.TaskID{UID: "op"}, KeyGroups: stream.KeyGroupRange{To: 128},
		Descriptors: []state.Descriptor{{Name: "a", Serializer: "x/1"}, {Name: "b", Serializer: "x/1"}},
	}
	m := NewMemory(MemoryConfig{})
	st, err := m.Open(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s := st.(*Store)
	key, refs := [][]byte{[]byte("k")}, make([]state.Ref, 1)
	hash := []uint64{stream.Hash(key[0])}
	for i, v := range []string{"in a", "in b"} {
		if err := s.State(i).Batch(context.Background(), key, hash, refs); err != nil {
			t.Fatal(err)
		}
		refs[0].Set([]byte(v))
	}
	up := &sinkhole{}
	a := &adder{s: s}
	_, _, _, _, hs := a.checkpoint(t, 1, up)
	_ = m.Close()

	m = NewMemory(MemoryConfig{})
	defer m.Close()
	id := stream.NewCheckpointID(1, 1)
	if err := m.Restore(context.Background(), state.Restored{ID: id, Keyed: map[stream.UID][]state.Handle{"op": hs}, Objects: up}); err != nil {
		t.Fatal(err)
	}
	spec.Descriptors = spec.Descriptors[1:] // one is dropped
	if st, err = m.Open(context.Background(), spec); err != nil {
		t.Fatal(err)
	}
	if err := st.Batch(context.Background(), key, hash, refs); err != nil {
		t.Fatal(err)
	}
	if v, _ := refs[0].Get(); string(v) != "in b" {
		t.Errorf("%q", v)
	}
	spec.Descriptors[0].Serializer = "x/2"
	if _, err := m.Open(context.Background(), spec); stream.CodeOf(err) != "state.serializer_changed" {
		t.Errorf("another serializer: %v", err)
	}
}

// TestHashCollisions: keys with the same hash are told apart, and too many of
// them are an error, not an endless loop.
func TestHashCollisions(t *testing.T) {
	s := benchStore(t, NewBudget(0))
	refs := make([]state.Ref, 64)
	for i := 0; i < 20_000; i += 64 {
		var keys [][]byte
		for j := range 64 {
			keys = append(keys, fmt.Appendf(nil, "%d", i+j))
		}
		if err := s.Batch(context.Background(), keys, make([]uint64, 64), refs); err != nil {
			if stream.CodeOf(err) != "state.hash_collisions" || i < pageFill {
				t.Fatalf("after %d keys: %v", i, err)
			}
			return
		}
		for j, r := range refs {
			if _, ok := r.Get(); ok {
				t.Fatalf("key %d is there", i+j)
			}
			r.Set(keys[j])
		}
	}
	t.Error("no error")
}

// TestLongKey: a key that is too long is an error that says so.
func TestLongKey(t *testing.T) {
	s := benchStore(t, NewBudget(0))
	long := make([]byte, maxKey+1)
	refs := make([]state.Ref, 1)
	if err := s.Batch(context.Background(), [][]byte{long}, []uint64{1}, refs); stream.CodeOf(err) != "state.key_too_long" {
		t.Error(err)
	}
	if err := s.Batch(context.Background(), [][]byte{long[1:]}, []uint64{1}, refs); err != nil {
		t.Error(err)
	}
}

// TestIdleChain: snapshots of a store that does not change upload nothing, and
// its chain does not grow.
func TestIdleChain(t *testing.T) {
	s := benchStore(t, NewBudget(0))
	a, up := newAdder(s, 64), &sinkhole{}
	a.fill(t, 100, 8)
	a.checkpoint(t, 1, up)
	frame := slices.Clone(up.frame)
	for n := range uint32(50) {
		_, _, _, _, hs := a.checkpoint(t, n+2, up)
		last := hs[len(hs)-1]
		if len(hs) != 2 || last.To != stream.NewCheckpointID(1, n+2) || last.Scope != state.Inline || last.Entries != 0 {
			t.Fatalf("checkpoint %d: %d handles, the last is %+v", n+2, len(hs), last)
		}
	}
	if !bytes.Equal(frame, up.frame) {
		t.Error("something was uploaded")
	}
}

// TestBatchOrder: what is done to a key through several references of a batch
// happens in order, moves included.
func TestBatchOrder(t *testing.T) {
	s := benchStore(t, NewBudget(0))
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 200 {
		key := fmt.Appendf(nil, "k%d", round%7)
		keys, hashes, refs := make([][]byte, 50), make([]uint64, 50), make([]state.Ref, 50)
		for i := range keys {
			keys[i], hashes[i] = key, stream.Hash(key)
		}
		if err := s.Batch(context.Background(), keys, hashes, refs); err != nil {
			t.Fatal(err)
		}
		want, ok := refs[49].Get()
		want = bytes.Clone(want)
		for i, ref := range refs {
			if got, is := ref.Get(); is != ok || !bytes.Equal(got, want) {
				t.Fatalf("round %d, reference %d", round, i)
			}
			if want, ok = make([]byte, r.IntN(3000)), true; len(want) > 0 {
				want[0] = byte(i)
			}
			ref.Set(want)
		}
	}
}
