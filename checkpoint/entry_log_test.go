package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etl/state"
	"etl/stream"
)

func entryOf(kind EntryKind) *Entry {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	e := &Entry{Seq: 7, Kind: kind, Nonce: "00ff", At: at, Attempt: 3, Lineage: stream.Lineage{1, 2, 3}}
	switch kind {
	case EntryAttempt:
		e.Holder = &Holder{Host: "h", PID: 42, Attempt: 3, Since: "2026-11-29T12:00:00Z"}
	case EntryCheckpoint:
		e.Metadata = &Metadata{Version: 1, Job: "job", Lineage: e.Lineage, ID: stream.NewCheckpointID(3, 17), Kind: "periodic", PublishedAt: at,
			Tasks: []TaskState{{TaskID: stream.TaskID{UID: "lines"}, Splits: []stream.Split{{Topic: "t", NextOffset: 12, LeaderEpoch: -1, End: -1}}},
				{TaskID: stream.TaskID{UID: "count"}, Handles: []state.Handle{{Role: state.Segment, Scope: state.Shared, Object: "objects/01020300-3-000001", Size: 9, CRC: 1}}}},
			Committables: []Committable{{Sink: "out", Checkpoint: stream.NewCheckpointID(3, 17), Attempt: 3, Kind: "kafka-txn", Version: 1, Payload: []byte{0, 1, 2}}}}
	case EntryConfirmed:
		e.Confirmed = map[string]stream.CheckpointID{"out/0": stream.NewCheckpointID(3, 17)}
	case EntryAbandoned:
		e.Abandoned, e.Reason = stream.NewCheckpointID(3, 17), "gone"
	}
	return e
}

var entryKinds = []EntryKind{EntryAttempt, EntryCheckpoint, EntryConfirmed, EntryAbandoned, EntryClosed}

// TestEntryGolden: the bytes of version 1 stay readable. The files were written
// once and are never written again.
func TestEntryGolden(t *testing.T) {
	for _, kind := range entryKinds {
		path := filepath.Join("testdata", "log-v1", string(kind))
		b, err := encodeEntry(entryOf(kind))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(path)
		if os.IsNotExist(err) && os.Getenv("ETL_WRITE_GOLDEN") == "1" {
			want, err = b, os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := decodeEntry(want)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		again, err := encodeEntry(e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%s of version 1 decodes to something else:\n%s\n%s", kind, again, b)
		}
	}
}

// TestEntryDamage: no entry with one byte changed, cut off or added is read.
func TestEntryDamage(t *testing.T) {
	for _, kind := range entryKinds {
		b, err := encodeEntry(entryOf(kind))
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if _, err := decodeEntry(b[:i]); err == nil {
				t.Fatalf("%s cut at %d was read", kind, i)
			}
			c := bytes.Clone(b)
			c[i] ^= 0x20
			if _, err := decodeEntry(c); err == nil {
				t.Fatalf("%s with byte %d changed was read", kind, i)
			}
		}
		if _, err := decodeEntry(append(bytes.Clone(b), '\n')); err == nil {
			t.Fatalf("%s with a byte added was read", kind)
		}
	}
}

// TestEntryNeedsItsParts: an entry that lacks what its kind needs is refused.
func TestEntryNeedsItsParts(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"no nonce":            func(e *Entry) { e.Nonce = "" },
		"no attempt":          func(e *Entry) { e.Attempt = 0 },
		"no lineage":          func(e *Entry) { e.Kind, e.Lineage = EntryAttempt, stream.Lineage{} },
		"no metadata":         func(e *Entry) { e.Metadata = nil },
		"newer metadata":      func(e *Entry) { e.Metadata.Version = MetadataVersion + 1 },
		"nothing confirmed":   func(e *Entry) { e.Kind = EntryConfirmed },
		"nothing abandoned":   func(e *Entry) { e.Kind = EntryAbandoned },
		"a kind of its own":   func(e *Entry) { e.Kind = "moved" },
		"a kind of no name":   func(e *Entry) { e.Kind = "" },
		"metadata of nothing": func(e *Entry) { e.Metadata.ID = stream.NoCheckpoint },
	} {
		e := entryOf(EntryCheckpoint)
		change(e)
		b, err := encodeEntry(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeEntry(b); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// FuzzEntry: whatever bytes lie in the log, reading them ends, and what is read
// can be written and read again to the same.
func FuzzEntry(f *testing.F) {
	for _, kind := range entryKinds {
		b, err := encodeEntry(entryOf(kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[entryHeader:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeEntry(body) // a frame of random bytes
		e, err := decodeEntry(frameOf(body))
		if err != nil {
			return
		}
		b, err := encodeEntry(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeEntry(b)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v\n%s", err, b)
		}
		if c, err := encodeEntry(again); err != nil || !bytes.Equal(b, c) {
			t.Fatalf("reading twice differs:\n%s\n%s", b, c)
		}
	})
}
