package idempotent

import (
	"encoding/json"
	"hash/crc32"

	"etl/state"
	"etl/stream"
)

// Rejected is a row that the target refused, as it is kept until the next barrier, which
// rejects its record.
type Rejected struct {
	Record stream.Record
	// Code and Message are those of the error. They name no values.
	Code, Message string
}

func (r *Rejected) err() error {
	return stream.Errorf(stream.Failed, r.Code, "write row", "", "%s", r.Message)
}

// kept is the writer's state in a checkpoint (docs/idempotent.md).
type kept struct {
	Version int        `json:"version"`
	Token   []byte     `json:"token,omitempty"` // of the Keeper
	Rejects []rejected `json:"rejects,omitempty"`
}

// rejected is a Rejected in a checkpoint. Null and empty bytes stay different.
type rejected struct {
	Topic     string          `json:"topic,omitempty"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Timestamp int64           `json:"timestamp"`
	Key       []byte          `json:"key"`
	Value     []byte          `json:"value"`
	Headers   []stream.Header `json:"headers,omitempty"`
	Made      bool            `json:"made,omitempty"` // of several records: there is none to put back
	Code      string          `json:"code"`
	Message   string          `json:"message"`
}

// keptVersion is the version of the form.
const keptVersion = 1

// encode returns the state as a handle, none when there is nothing to keep.
func (k kept) encode() ([]state.Handle, error) {
	if len(k.Token) == 0 && len(k.Rejects) == 0 {
		return nil, nil
	}
	k.Version = keptVersion
	b, err := json.Marshal(k)
	return []state.Handle{{Role: state.Writer, Scope: state.Inline, Bytes: b, Size: int64(len(b)), CRC: crc32.Checksum(b, castagnoli)}}, err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func decode(h state.Handle) (k kept, err error) {
	if err := json.Unmarshal(h.Bytes, &k); err != nil {
		return k, stream.Errorf(stream.RestoreRefused, "idempotent.state", "read the sink's state", "", "%w", err)
	}
	if k.Version != keptVersion {
		return k, stream.Errorf(stream.RestoreRefused, "idempotent.state", "read the sink's state", "", "it has version %d, and this program reads %d", k.Version, keptVersion)
	}
	return k, nil
}

func store(r Rejected) rejected {
	c := r.Record
	return rejected{Topic: c.Topic, Partition: c.Partition, Offset: c.Offset, Timestamp: c.Timestamp, Key: c.Key, Value: c.Value, Headers: c.Headers, Made: c.Made, Code: r.Code, Message: r.Message}
}

func (r rejected) load() Rejected {
	return Rejected{Code: r.Code, Message: r.Message, Record: stream.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Headers: r.Headers, Made: r.Made, Pos: -1}}
}

// waiting is a row that was refused and is not yet behind a published checkpoint: it goes
// out at one barrier, and checkpoints before that keep it.
type waiting struct {
	Rejected
	batch   uint64 // in which it was written, 0 for one of the restored checkpoint
	emitted stream.CheckpointID
}

// found remembers rows that were refused. w.mu is held.
func (w *Writer) found(batch uint64, rs []Rejected) {
	for _, r := range rs {
		w.rejects = append(w.rejects, waiting{Rejected: r, batch: batch})
	}
}

// emit returns the rows that go out at barrier id.
func (w *Writer) emit(id stream.CheckpointID) (out []Rejected) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rejects {
		if r := &w.rejects[i]; r.emitted == stream.NoCheckpoint {
			r.emitted = id
			out = append(out, r.Rejected)
		}
	}
	return out
}

// keep returns the rejects that checkpoint id, which ends with a batch, must remember:
// those that go out behind its barrier.
func (w *Writer) keep(id stream.CheckpointID, batch uint64) (out []rejected) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rejects {
		if r.batch <= batch && (r.emitted == stream.NoCheckpoint || r.emitted > id) {
			out = append(out, store(r.Rejected))
		}
	}
	return out
}

// forget drops rejects that went out at the barrier of a published checkpoint, or before.
func (w *Writer) forget(id stream.CheckpointID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.rejects[:0]
	for _, r := range w.rejects {
		if r.emitted == stream.NoCheckpoint || r.emitted > id {
			rest = append(rest, r)
		}
	}
	clear(w.rejects[len(rest):])
	w.rejects = rest
}
