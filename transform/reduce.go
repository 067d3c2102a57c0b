package transform

import (
	"context"

	"etl/state"
	"etl/stream"
)

// When says when a keyed operator emits.
type When uint8

const (
	// OnCheckpoint emits each changed key once per epoch, before the barrier.
	OnCheckpoint When = iota
	// OnChange emits for every record that changes its key.
	OnChange
)

// Reduce keeps one value per key, which Update changes and Output turns into a
// record. It stands behind a rekey: Record.Group is the key.
type Reduce struct {
	// Name and Serializer describe the value; see state.Descriptor.
	Name, Serializer string
	Emit             When
	// Schema is that of what Output makes.
	Schema *stream.Schema
	// Update changes the value of r's key, and reports whether it did. On an error
	// it must have changed nothing: r is rejected. ref is that of the key.
	Update func(r *stream.Record, ref state.Ref) (changed bool, err error)
	// Output appends the value of the new record o to dst, or returns nil for null;
	// under OnChange for record r, otherwise with r nil. It may set other fields of
	// o, to memory that lives as long as key and r or longer.
	Output func(dst []byte, o *stream.Record, key, value []byte, r *stream.Record) []byte
}

// OutputSchema returns Schema.
func (d Reduce) OutputSchema(*stream.Schema) (*stream.Schema, error) { return d.Schema, nil }

// Descriptors returns the keyed state of the operator.
func (d Reduce) Descriptors() []state.Descriptor {
	return []state.Descriptor{{Name: d.Name, Kind: "value", Serializer: d.Serializer}}
}

// New returns the operator for one task.
func (d Reduce) New() Operator { return &reduce{Reduce: d, buf: make([]byte, 0, 256)} }

// groupSize is how many keys are looked up together; see state.Keyed.
const groupSize = 64

// emitSize is how many keys are emitted before the output is drained.
const emitSize = 512

type reduce struct {
	Reduce
	state state.Keyed
	buf   []byte
	made  stream.Record // being made: here, so that Output's pointer costs nothing

	keys   [groupSize][]byte
	hashes [groupSize]uint64
	refs   [groupSize]state.Ref

	epoch stream.CheckpointID // whose dirty keys are being emitted
	pos   int
}

// Open implements Operator.
func (d *reduce) Open(_ context.Context, env Env) error {
	d.state = env.Keyed
	return nil
}

// Close implements Operator.
func (d *reduce) Close() error { return nil }

// Process implements Operator.
func (d *reduce) Process(ctx context.Context, b *stream.Batch, out Output) error {
	var changes *stream.Batch
	if d.Emit == OnChange {
		changes = b.Derive(d.Schema)
	}
	for rest := b.Records; len(rest) > 0; {
		n := min(len(rest), groupSize)
		if err := d.group(ctx, rest[:n], changes, out); err != nil {
			if changes != nil {
				changes.Release()
			}
			return err
		}
		rest = rest[n:]
	}
	if changes != nil {
		out.EmitBatch(changes)
	}
	return nil
}

// group updates the keys of up to groupSize records.
func (d *reduce) group(ctx context.Context, recs []stream.Record, changes *stream.Batch, out Output) error {
	n := len(recs)
	for i := range recs {
		d.keys[i], d.hashes[i] = recs[i].Group, recs[i].Hash
	}
	if err := d.state.Batch(ctx, d.keys[:n], d.hashes[:n], d.refs[:n]); err != nil {
		return err
	}
	for i := range recs {
		changed, err := d.Update(&recs[i], d.refs[i])
		if err != nil {
			out.Reject(recs[i], err)
			continue
		}
		if changed && changes != nil {
			value, _ := d.refs[i].Get()
			d.made = recs[i].Derived()
			d.made.Group, d.made.Hash = recs[i].Group, recs[i].Hash
			d.emit(changes, value, &recs[i])
		}
	}
	return nil
}

// emit completes d.made and appends it to b.
func (d *reduce) emit(b *stream.Batch, value []byte, r *stream.Record) {
	if out := d.Output(d.buf[:0], &d.made, d.made.Group, value, r); out != nil {
		d.buf = out
		d.made.Value = keep(b, out)
	}
	b.Append(d.made)
}

// BeforeBarrier emits the keys that changed in this epoch, some at a time.
func (d *reduce) BeforeBarrier(_ context.Context, id stream.CheckpointID, out Output) (more bool, err error) {
	if d.Emit != OnCheckpoint {
		return false, nil
	}
	if id != d.epoch {
		d.epoch, d.pos = id, 0
	}
	b := stream.NewBatch(d.Schema)
	d.pos, more = d.state.Dirty(d.pos, func(key, value []byte, ok bool) bool {
		if ok {
			d.made = stream.Record{Timestamp: -1, Pos: -1, Made: true, Group: keep(b, key), Hash: stream.Hash(key)}
			d.emit(b, value, nil)
		}
		return len(b.Records) < emitSize
	})
	out.EmitBatch(b)
	return more, nil
}

// CountText counts records per key. It emits the key as it is, and the count as
// decimal text.
func CountText(emit When) Reduce {
	return Reduce{
		Name: "count", Serializer: "count/1", Emit: emit, Schema: &stream.Schema{Format: stream.Text},
		Update: func(_ *stream.Record, ref state.Ref) (bool, error) {
			addCount(ref.Mutable(countSize))
			return true, nil
		},
		Output: func(dst []byte, o *stream.Record, key, value []byte, _ *stream.Record) []byte {
			o.Key = key
			return appendCount(dst, value)
		},
	}
}
