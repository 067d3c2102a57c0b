package keyed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"etl/state"
	"etl/stream"
)

// someSegment returns a segment of n entries, some of them deletions.
func someSegment(tb testing.TB, n int) []byte {
	s := benchStore(tb, NewBudget(0))
	a, up := newAdder(s, 64), &sinkhole{}
	a.fill(tb, n, 20)
	a.visit(tb, n/10+1, func(_ uint32, r state.Ref) { r.Delete() })
	a.checkpoint(tb, 1, up)
	return up.frame
}

// readAll decodes a segment as a restore does.
func readAll(b []byte) (n int, err error) {
	r, err := newSegmentReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return 0, err
	}
	for {
		g, count, body, err := r.next(func(g stream.KeyGroup) bool { return g%5 != 0 })
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		seen := uint32(0)
		err = eachRecord(body, func(full, value []byte, del bool) error {
			seen++
			got, _, _, err := splitKey(full, nil)
			if err != nil {
				return err
			}
			if got != g {
				return errSegment
			}
			if !del {
				_, err = openEnvelope(value)
			}
			return err
		})
		if err != nil {
			return n, err
		}
		if seen != count {
			return n, errSegment
		}
		n += int(count)
	}
}

// TestSegmentDamage: no flipped bit and no cut goes unnoticed, wherever it is.
func TestSegmentDamage(t *testing.T) {
	good := someSegment(t, 300)
	if n, err := readAll(good); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	s := benchStore(t, NewBudget(0))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		up := &sinkhole{frame: bad}
		h := state.Handle{Role: state.Segment, Scope: state.Shared, Object: "o", Size: int64(len(bad))}
		if _, err := s.Replay(context.Background(), up, []state.Handle{h}, nil); err == nil {
			t.Errorf("a flipped bit in byte %d of %d was not noticed", i, len(good))
		}
		if _, err := readAll(good[:i]); err == nil {
			t.Errorf("a cut to %d bytes was not noticed", i)
		}
	}
}

func FuzzSegment(f *testing.F) {
	good := someSegment(f, 6)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(segmentMagic))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = readAll(b) })
}

// FuzzRecords decodes bodies without the checksums that shield them.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{kindSet, 6, 0, 1, 0, 1, 0, 1, 2, 0, 'v'})
	f.Add([]byte{kindDelete, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = eachRecord(b, func(full, value []byte, _ bool) error {
			_, _, _, _ = splitKey(full, nil)
			_, _ = openEnvelope(value)
			return nil
		})
		var h SegmentHeader
		_ = h.parse(b)
	})
}
