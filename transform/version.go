package transform

import (
	"context"
	"encoding/binary"

	"etl/internal/invariant"
	"etl/state"
	"etl/stream"
)

// Version counts the records of each key and gives every record its number as
// Record.Version; the records themselves it passes on as they are. It stands behind a
// rekey, before a sink that must tell an older value of a key from a newer one.
//
// A replay gives a key the same numbers again, because what is before it gives the key
// the same records: it must not stand behind an operator that emits at checkpoints.
type Version struct{}

// OutputSchema returns in: the records do not change.
func (Version) OutputSchema(in *stream.Schema) (*stream.Schema, error) { return in, nil }

// Descriptors returns the keyed state of the operator: a count of 8 bytes per key.
func (Version) Descriptors() []state.Descriptor {
	return []state.Descriptor{{Name: "version", Kind: "value", Serializer: "version/1"}}
}

// New returns the operator for one task.
func (Version) New() Operator { return &version{} }

type version struct {
	state  state.Keyed
	keys   [groupSize][]byte
	hashes [groupSize]uint64
	refs   [groupSize]state.Ref
}

// Open implements Operator.
func (v *version) Open(_ context.Context, env Env) error {
	invariant.Check(env.Keyed != nil, "version: no keyed state")
	v.state = env.Keyed
	return nil
}

// Close implements Operator.
func (v *version) Close() error { return nil }

// Process implements Operator.
func (v *version) Process(ctx context.Context, b *stream.Batch, out Output) error {
	d := b.Derive(b.Schema)
	d.Records = append(d.Records, b.Records...)
	for rest := d.Records; len(rest) > 0; {
		n := min(len(rest), groupSize)
		if err := v.group(ctx, rest[:n]); err != nil {
			d.Release()
			return err
		}
		rest = rest[n:]
	}
	out.EmitBatch(d)
	return nil
}

// group numbers up to groupSize records.
func (v *version) group(ctx context.Context, recs []stream.Record) error {
	n := len(recs)
	for i := range recs {
		v.keys[i], v.hashes[i] = recs[i].Group, recs[i].Hash
	}
	if err := v.state.Batch(ctx, v.keys[:n], v.hashes[:n], v.refs[:n]); err != nil {
		return err
	}
	for i := range recs {
		c := v.refs[i].Mutable(countSize)
		addCount(c)
		recs[i].Version = binary.LittleEndian.Uint64(c)
	}
	return nil
}
