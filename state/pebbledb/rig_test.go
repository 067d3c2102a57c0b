package pebbledb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"etl/state"
	"etl/state/keyed"
	"etl/state/pebbledb"
	"etl/stream"
)

// rig is a job of one operator and one subtask on a real disk: what the tests of
// this package drive where the model is too small. State is a number per key: the
// round in which it was written last.
type rig struct {
	tb      testing.TB
	dir     string // holds state/ and objects/
	cfg     pebbledb.Config
	objects objects
	b       *pebbledb.Backend
	store   state.Store
	id      stream.CheckpointID
	round   uint64
	hs      []state.Handle
	value   int        // bytes of a value
	noise   *rand.Rand // fills values with what cannot be compressed
	lenient bool       // storage does not verify
	keys    [][]byte
	hashes  []uint64
	refs    []state.Ref
}

// published is what metadata holds.
type published struct {
	ID    stream.CheckpointID
	Round uint64
	Hs    []state.Handle
}

var rigTask = stream.TaskID{UID: "count"}

func newRig(tb testing.TB, dir string, change func(*pebbledb.Config)) *rig {
	r := &rig{tb: tb, dir: dir, objects: objects{filepath.Join(dir, "objects")}, value: 64}
	r.cfg = pebbledb.Config{World: stream.SystemWorld(nil), Dir: filepath.Join(dir, "state"), Lineage: stream.Lineage{9}, Memory: 64 << 20}
	if change != nil {
		change(&r.cfg)
	}
	return r
}

// start begins the next attempt from the newest checkpoint.
func (r *rig) start() error {
	var p published
	if b, err := os.ReadFile(filepath.Join(r.dir, "newest")); err == nil {
		if err := json.Unmarshal(b, &p); err != nil {
			return err
		}
	}
	r.cfg.Attempt = max(p.ID.Attempt(), r.cfg.Attempt) + 1
	r.id, r.round, r.hs = stream.NewCheckpointID(r.cfg.Attempt, 0), p.Round, p.Hs
	var err error
	if r.b, err = pebbledb.New(r.cfg); err != nil {
		return err
	}
	var objects state.Objects = r.objects
	if r.lenient {
		objects = lenient{r.objects}
	}
	restored := state.Restored{ID: p.ID, Keyed: map[stream.UID][]state.Handle{rigTask.UID: p.Hs}, Objects: objects}
	if err := r.b.Restore(context.Background(), restored); err != nil {
		return errors.Join(err, r.b.Close())
	}
	r.store, err = r.b.Open(context.Background(), state.Spec{
		Task: rigTask, KeyGroups: stream.KeyGroupRange{To: stream.DefaultMaxParallelism},
		Descriptors: []state.Descriptor{{Name: "n", Kind: "value", Serializer: "u64/1"}},
	})
	if err != nil {
		return errors.Join(err, r.b.Close())
	}
	return nil
}

func (r *rig) stop() {
	if err := errors.Join(r.store.Close(), r.b.Close()); err != nil {
		r.tb.Error(err)
	}
}

// write gives keys a value in batches.
func (r *rig) write(keys func(yield func(uint64) bool), round uint64) error {
	return r.each(keys, func(i int, _ uint64) error {
		v := r.refs[i].Mutable(r.value)
		for j := 8; j < len(v) && r.noise != nil; j += 8 {
			binary.LittleEndian.PutUint64(v[j:], r.noise.Uint64())
		}
		binary.LittleEndian.PutUint64(v, round)
		return nil
	})
}

// check compares keys with what they must be: 0 is absent.
func (r *rig) check(keys func(yield func(uint64) bool), want func(key uint64) uint64) error {
	return r.each(keys, func(i int, key uint64) error {
		v, ok := r.refs[i].Get()
		got := uint64(0)
		if ok {
			got = binary.LittleEndian.Uint64(v)
		}
		if w := want(key); got != w {
			return fmt.Errorf("key %d is of round %d, must be of %d", key, got, w)
		}
		return nil
	})
}

func (r *rig) each(keys func(yield func(uint64) bool), f func(i int, key uint64) error) error {
	ids := make([]uint64, 0, 512)
	flush := func() error {
		r.lookup(ids)
		if err := r.store.Batch(context.Background(), r.keys, r.hashes, r.refs); err != nil {
			return err
		}
		for i, k := range ids {
			if err := f(i, k); err != nil {
				return err
			}
		}
		ids = ids[:0]
		_, err := r.store.Slice()
		return err
	}
	for k := range keys {
		if ids = append(ids, k); len(ids) == cap(ids) {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// lookup fills keys, hashes and refs for a batch.
func (r *rig) lookup(ids []uint64) {
	r.keys, r.hashes, r.refs = r.keys[:0], r.hashes[:0], slices.Grow(r.refs[:0], len(ids))[:len(ids)]
	for _, k := range ids {
		key := binary.BigEndian.AppendUint64(nil, k*0x9e3779b97f4a7c15)
		r.keys, r.hashes = append(r.keys, key), append(r.hashes, stream.Hash(key))
	}
}

// checkpoint takes one through all steps; publish makes it the newest.
func (r *rig) checkpoint(publish bool) error {
	r.id++
	snap, err := r.store.Snapshot(r.id)
	if err != nil {
		return err
	}
	for more := true; more; {
		if more, err = r.store.Slice(); err != nil {
			return err
		}
	}
	hs, err := snap.Persist(context.Background(), r.objects)
	snap.Release(err == nil)
	if err != nil || !publish {
		return err
	}
	r.hs = hs
	b, err := json.Marshal(published{r.id, r.round, hs})
	if err != nil {
		return err
	}
	tmp := filepath.Join(r.dir, "newest.tmp")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(r.dir, "newest")); err != nil {
		return err
	}
	r.b.Completed(r.id)
	return nil
}

// objects is checkpoint storage on files, one for each frame.
type objects struct{ dir string }

var rigTable = crc32.MakeTable(crc32.Castagnoli)

func (o objects) Create(_ context.Context, name string, r io.Reader) (int64, uint32, error) {
	full := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return 0, 0, err
	}
	f, err := os.OpenFile(full, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, 0, err
	}
	sum := crc32.New(rigTable)
	n, err := io.Copy(io.MultiWriter(f, sum), r)
	return n, sum.Sum32(), errors.Join(err, f.Close())
}

func (o objects) Read(_ context.Context, h state.Handle) (io.ReadCloser, error) {
	b, err := os.ReadFile(filepath.Join(o.dir, h.Object))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != h.Size || crc32.Checksum(b, rigTable) != h.CRC {
		return nil, fmt.Errorf("object %s was altered", h.Object)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

var segmentNumber int

func (o objects) Append(role state.Role, frame []byte) state.Ticket {
	segmentNumber++
	name := fmt.Sprintf("segment-%d-%d", os.Getpid(), segmentNumber)
	n, crc, err := o.Create(context.Background(), name, bytes.NewReader(frame))
	return rigTicket{state.Handle{Role: role, Scope: state.Shared, Object: name, Size: n, CRC: crc}, err}
}

type rigTicket struct {
	h   state.Handle
	err error
}

func (t rigTicket) Wait(context.Context) (state.Handle, error) { return t.h, t.err }

// count yields 0 to n-1.
func count(n uint64) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for k := range n {
			if !yield(k) {
				return
			}
		}
	}
}

// oftenBase makes bases out of next to nothing.
func oftenBase(c *pebbledb.Config) {
	c.Policy = keyed.Policy{SegmentBytes: 256 << 10, Base: true}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
