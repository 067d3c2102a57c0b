package stream

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestNullIsNotEmpty copies null and empty bytes into fresh and used batches.
func TestNullIsNotEmpty(t *testing.T) {
	for _, fill := range []int{0, 10, chunkSize} {
		b := NewBatch(nil)
		b.Alloc(fill)
		b.AppendCopy(&Record{Key: nil, Value: []byte{}, Group: []byte{}, Headers: []Header{{Key: "a"}, {Key: "b", Value: []byte{}}}})
		r := b.Records[0]
		if r.Key != nil || r.Value == nil || r.Group == nil || r.Headers[0].Value != nil || r.Headers[1].Value == nil {
			t.Errorf("after %d bytes: key %v value %v group %v headers %v", fill, r.Key, r.Value, r.Group, r.Headers)
		}
		b.Release()
	}
}

// TestCopiesAreApart lets random records be copied while the originals change: a
// batch that was copied into shares no memory with its source or its neighbours.
func TestCopiesAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBatch(nil)
		var want [][]byte
		for range rapid.IntRange(1, 50).Draw(t, "records") {
			v := rapid.SliceOfN(rapid.Byte(), 0, 40_000).Draw(t, "value")
			want = append(want, bytes.Clone(v))
			b.AppendCopy(&Record{Value: v})
			for i := range v {
				v[i]++
			}
		}
		for i, w := range want {
			if !bytes.Equal(b.Records[i].Value, w) {
				t.Fatalf("record %d was changed from outside", i)
			}
			b.Records[i].Value = append(b.Records[i].Value, 1, 2, 3) // must not run into the next one
		}
		for i, w := range want {
			if !bytes.Equal(b.Records[i].Value[:len(w)], w) {
				t.Fatalf("record %d was overwritten by its neighbour", i)
			}
		}
		b.Release()
	})
}

// TestDerivedKeepsParent releases in every order: the parent's memory goes only
// when nobody needs it.
func TestDerivedKeepsParent(t *testing.T) {
	freed := 0
	b := NewOriginBatch(nil, "origin", func(*Batch) { freed++ })
	d := b.Derive(nil)
	if d.Origin() != "origin" {
		t.Error("a derived batch has the origin of its parent")
	}
	b.Release()
	if freed != 0 {
		t.Fatal("the parent went while a derived batch needs it")
	}
	d.Retain()
	d.Release()
	d.Release()
	if freed != 1 {
		t.Fatalf("the parent was freed %d times", freed)
	}
}

// TestReleaseTwice panics rather than hand memory out twice.
func TestReleaseTwice(t *testing.T) {
	b := &Batch{}
	b.refs.Store(1)
	b.refs.Add(-1)
	defer func() {
		if recover() == nil {
			t.Error("a second release went unnoticed")
		}
	}()
	b.Release()
}
