package wal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"etl/stream"
)

func golden() *Segment {
	return &Segment{Kind: "wal-test", Checkpoint: stream.NewCheckpointID(3, 17), Subtask: 2, Number: 1, Rows: 2, Body: []byte("\x01a\x02bc")}
}

// The bytes of version 1, as docs/formats/wal.md draws them.
func TestSegmentBytes(t *testing.T) {
	want := "EWAL\x01\x08\x00\x00" + "\x00\x00\x00\x03\x00\x00\x00\x11" + "\x00\x00\x00\x02" + "\x00\x00\x00\x01" + "\x00\x00\x00\x02" + "\x00\x00\x00\x05" + "wal-test" + "\x01a\x02bc"
	got, err := golden().Append(nil)
	if err != nil || string(got[:len(got)-4]) != want {
		t.Fatalf("%q, %v", got, err)
	}
	if sum := be.Uint32(got[len(got)-4:]); sum != 0x49e461aa {
		t.Errorf("checksum %#x", sum)
	}
}

// A segment is read as it was written, and not at all with any byte changed, cut off or
// added.
func TestSegmentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Segment{Kind: rapid.StringN(1, 20, 60).Draw(t, "kind"), Checkpoint: stream.CheckpointID(rapid.Uint64().Draw(t, "id")),
			Subtask: rapid.IntRange(0, 1<<31-1).Draw(t, "subtask"), Number: rapid.IntRange(0, 1<<31-1).Draw(t, "number"),
			Rows: rapid.IntRange(0, 1<<31-1).Draw(t, "rows"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body")}
		b, err := s.Append([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		b = b[1:]
		got, err := DecodeSegment(b)
		if err != nil || got.Kind != s.Kind || got.Checkpoint != s.Checkpoint || got.Subtask != s.Subtask || got.Number != s.Number || got.Rows != s.Rows || !bytes.Equal(got.Body, s.Body) {
			t.Fatalf("%+v, %v", got, err)
		}
		i := rapid.IntRange(0, len(b)-1).Draw(t, "place")
		changed := slices.Clone(b)
		changed[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		for what, bad := range map[string][]byte{"changed": changed, "cut": b[:i], "longer": append(slices.Clone(b), 0)} {
			if got, err := DecodeSegment(bad); err == nil {
				t.Fatalf("%s at %d of %d is read as %+v", what, i, len(b), got)
			}
		}
	})
}

func FuzzDecodeSegment(f *testing.F) {
	b, _ := golden().Append(nil)
	f.Add(b)
	f.Add([]byte("EWAL"))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSegment(b)
		if err != nil {
			return
		}
		again, err := s.Append(nil)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q is read as %+v, which is written as %q, %v", b, s, again, err)
		}
		n := 0
		if s.EachRow(func([]byte) error { n++; return nil }) == nil && n != s.Rows {
			t.Fatalf("%d rows instead of %d", n, s.Rows)
		}
	})
}

func FuzzRow(f *testing.F) {
	r := stream.Record{Topic: "t", Partition: 3, Offset: 17}
	f.Add(AppendBytes(AppendBytes(AppendPlace(nil, &r), nil), []byte{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec stream.Record
		r := NewReader(b)
		r.Place(&rec)
		key, value := r.Bytes(), r.Bytes()
		if r.Err() != nil {
			return
		}
		back := NewReader(AppendBytes(AppendBytes(AppendPlace(nil, &rec), key), value))
		var again stream.Record
		back.Place(&again)
		k, v := back.Bytes(), back.Bytes()
		if back.Err() != nil || again.Topic != rec.Topic || again.Partition != rec.Partition || again.Offset != rec.Offset || !bytes.Equal(k, key) || !bytes.Equal(v, value) || (k == nil) != (key == nil) || (v == nil) != (value == nil) {
			t.Fatalf("%+v %q %q, then %+v %q %q, %v", rec, key, value, again, k, v, back.Err())
		}
	})
}

// Rows come out of a log as they went in, whatever of it lay on disk.
func TestLog(t *testing.T) {
	for _, memory := range []int64{0, 1 << 30} {
		room := &Room{FS: stream.SystemWorld(nil).FS, Memory: memory, Dir: t.TempDir(), Name: "x"}
		l := room.NewLog()
		row := bytes.Repeat([]byte("r"), 100_000)
		for i := range 200 {
			row[0] = byte(i)
			if _, err := l.Add(row); err != nil {
				t.Fatal(err)
			}
		}
		if (room.Spilled() > 0) != (memory == 0) {
			t.Errorf("%d bytes on disk with %d of memory", room.Spilled(), memory)
		}
		for range 2 { // twice: an upload may be repeated
			n := 0
			err := l.Segments(func(rows int, body []byte) error {
				s := Segment{Rows: rows, Body: body}
				return s.EachRow(func(got []byte) error {
					if row[0] = byte(n); !bytes.Equal(got, row) {
						return errors.New("another row")
					}
					n++
					return nil
				})
			})
			if err != nil || n != 200 || l.Rows() != 200 {
				t.Fatalf("%d of %d rows, %v", n, l.Rows(), err)
			}
		}
		l.Free()
	}
}

// What is published and not delivered keeps writers waiting; what waits for a barrier does
// not, for the barrier may wait behind the writer.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, Options{MaxLog: 100}).join(1)
		waits := func(open int64) bool {
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { done <- l.wait(ctx, open) }()
			synctest.Wait()
			return len(done) == 0
		}
		id := stream.NewCheckpointID(1, 1)
		if waits(1000) {
			t.Error("an open epoch alone waits")
		}
		if l.sealed(0, id, 1000, false); waits(0) {
			t.Error("an epoch that is not published makes writers wait")
		}
		if l.published(0, id); !waits(0) {
			t.Error("the log is full, and a writer does not wait")
		}
		if l.published(1, id+1); !waits(0) {
			t.Error("another subtask's checkpoint makes room")
		}
		if l.delivered(0, id); waits(0) {
			t.Error("everything is delivered, and a writer waits")
		}
		l.sink.o.MaxEpochs = 2
		for i := range stream.CheckpointID(3) {
			l.sealed(0, id+i, 1, true)
		}
		if !waits(0) {
			t.Error("every checkpoint lists three epochs, and a writer does not wait")
		}
		if l.delivered(0, id); waits(0) {
			t.Error("two epochs make a writer wait")
		}
	})
}
