package transform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"etl/expr"
	"etl/state"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeKeyed is keyed state as a plain map: the oracle of the real ones.
type fakeKeyed struct {
	values map[string][]byte
	batch  []string // keys of the refs given out
	dirty  []string
	calls  int
}

func newFakeKeyed() *fakeKeyed { return &fakeKeyed{values: map[string][]byte{}} }

func (k *fakeKeyed) Batch(_ context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	k.calls++
	k.batch = k.batch[:0]
	for i, key := range keys {
		if key == nil || hashes[i] != stream.Hash(key) {
			return fmt.Errorf("key %q with hash %x", key, hashes[i])
		}
		refs[i] = state.Ref{E: k, At: uint64(i)}
		k.batch = append(k.batch, string(key))
	}
	return nil
}

func (k *fakeKeyed) Get(at uint64) ([]byte, bool) {
	v, ok := k.values[k.batch[at]]
	return v, ok
}

// Mutable moves the value each time, so that a slice kept too long is stale.
func (k *fakeKeyed) Mutable(at uint64, n int) []byte {
	key := k.batch[at]
	v := make([]byte, n)
	copy(v, k.values[key])
	for i := range k.values[key] {
		k.values[key][i] = 0xee
	}
	k.values[key] = v
	k.mark(key)
	return v
}

func (k *fakeKeyed) Delete(at uint64) {
	delete(k.values, k.batch[at])
	k.mark(k.batch[at])
}

func (k *fakeKeyed) mark(key string) {
	if !slices.Contains(k.dirty, key) {
		k.dirty = append(k.dirty, key)
	}
}

func (k *fakeKeyed) Dirty(pos int, f func(key, value []byte, ok bool) bool) (int, bool) {
	for ; pos < len(k.dirty); pos++ {
		v, ok := k.values[k.dirty[pos]]
		if !f([]byte(k.dirty[pos]), v, ok) {
			return pos + 1, true
		}
	}
	return pos, false
}

// snapshot ends the epoch and returns all state as bytes; restored reads them.
func (k *fakeKeyed) snapshot() []byte {
	k.dirty = nil
	b, err := json.Marshal(k.values)
	if err != nil {
		panic(err)
	}
	return b
}

func restored(b []byte) *fakeKeyed {
	k := newFakeKeyed()
	if err := json.Unmarshal(b, &k.values); err != nil {
		panic(err)
	}
	return k
}

// fakeOutput collects what an operator emits. It owns the batches.
type fakeOutput struct {
	batches  []*stream.Batch
	cur      *stream.Batch
	rejected []string // "offset code"
	errs     []error
	sides    []string // "output value"
	passed   []*stream.Batch
}

func (o *fakeOutput) Emit(r stream.Record) { o.Batch().Append(r) }

func (o *fakeOutput) Batch() *stream.Batch {
	if o.cur == nil {
		o.cur = stream.NewBatch(nil)
		o.batches = append(o.batches, o.cur)
	}
	return o.cur
}

func (o *fakeOutput) EmitBatch(b *stream.Batch) {
	o.batches, o.cur = append(o.batches, b), nil
}

func (o *fakeOutput) Side(tag stream.Tag, r stream.Record) {
	o.sides = append(o.sides, fmt.Sprint(tag, " ", string(r.Value)))
}

func (o *fakeOutput) SideBatch(tag stream.Tag, b *stream.Batch) {
	for _, r := range b.Records {
		o.Side(tag, r)
	}
	o.passed = append(o.passed, b)
	b.Release()
}

func (o *fakeOutput) Reject(r stream.Record, err error) {
	o.rejected = append(o.rejected, fmt.Sprint(r.Offset, " ", stream.CodeOf(err)))
	o.errs = append(o.errs, err)
}

// take returns the values emitted so far and releases them.
func (o *fakeOutput) take() (values []string) {
	for _, b := range o.batches {
		for _, r := range b.Records {
			v := string(r.Value)
			if r.Value == nil {
				v = "null value"
			}
			values = append(values, v)
		}
		b.Release()
	}
	o.batches, o.cur = nil, nil
	return values
}

// input returns a batch of JSON values, as a source would emit them.
func input(values ...string) *stream.Batch {
	b := stream.NewOriginBatch(&stream.Schema{Format: stream.JSON}, "origin", nil)
	for i, v := range values {
		r := stream.Record{Topic: "in", Partition: 1, Offset: int64(i), Timestamp: 1000 + int64(i), Pos: int32(i), Key: []byte("k"),
			Headers: []stream.Header{{Key: "h"}, {Key: "h", Value: []byte{}}}}
		if v != "null value" {
			r.Value = []byte(v)
		}
		b.Append(r)
	}
	return b
}

func compile(t testing.TB, src string, env expr.Env) *expr.Program {
	t.Helper()
	p, err := expr.Compile(src, env)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return p
}

// run processes one batch with an opened operator and returns values and rejects.
func run(t testing.TB, op Operator, b *stream.Batch) (values, rejected []string) {
	t.Helper()
	out := &fakeOutput{}
	if err := op.Process(context.Background(), b, out); err != nil {
		t.Fatal(err)
	}
	b.Release()
	for _, err := range out.errs {
		if !strings.Contains(err.Error(), "in/1@") {
			t.Errorf("error does not say where: %v", err)
		}
	}
	return out.take(), out.rejected
}

func opened(t testing.TB, op Operator, k state.Keyed) Operator {
	t.Helper()
	if err := op.Open(context.Background(), Env{Keyed: k}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { op.Close() })
	return op
}

func equal(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func sorted(m map[string]string) []string {
	return slices.Sorted(maps.Values(m))
}
