package keyed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"etl/internal/fault"
	"etl/state"
	"etl/stream"
)

// Sink takes the entries of segments at a restore, in batches: the cache, or a
// base when they do not fit.
type Sink interface {
	// Put takes entries in order: a later one of the same key counts. Bytes are
	// valid during the call.
	Put(ctx context.Context, entries []Replayed) error
}

// Replayed is an entry of a segment. Table is the number of the state in
// Options.Descriptors.
type Replayed struct {
	Table int
	Key   []byte // the user key
	Hash  uint64
	Live  bool
	Value []byte // without envelope
}

// Replay reads segments in order and gives the entries of the store's key
// groups to sink, nil for the store itself. It verifies every checksum; what it
// cannot read refuses the restore, naming object and key group.
func (s *Store) Replay(ctx context.Context, objects state.Objects, segments []state.Handle, sink Sink) (entries int64, err error) {
	if sink == nil {
		sink = s
	}
	for _, h := range segments {
		n, err := s.replaySegment(ctx, objects, h, sink)
		if err != nil {
			return entries, err
		}
		entries += n
		fault.Point("K49-segment-replayed")
	}
	return entries, nil
}

func (s *Store) replaySegment(ctx context.Context, objects state.Objects, h state.Handle, sink Sink) (entries int64, err error) {
	where := h.Object
	refuse := func(err error) error {
		if stream.CodeOf(err) != "" || ctx.Err() != nil {
			return err
		}
		return stream.Errorf(stream.RestoreRefused, "state.segment_unreadable", "restore keyed state of "+s.name(),
			fmt.Sprintf("segment (%s, %s] in %s at %d", h.From, h.To, where, h.Offset), "%w", err).
			WithFix("restore an older checkpoint with --from, or a savepoint")
	}
	r, err := openSegment(ctx, objects, h)
	if err != nil {
		return 0, refuse(err)
	}
	defer r.Close()
	if h.Scope == state.Inline {
		where = "the metadata"
	}
	sr, err := newSegmentReader(r, h.Size)
	if err != nil {
		return 0, refuse(err)
	}
	tables, err := s.tablesOf(&sr.Header)
	if err != nil {
		return 0, err
	}
	b := replayBatch{sink: sink}
	for {
		g, _, body, err := sr.next(s.KeyGroups.Contains)
		if errors.Is(err, io.EOF) {
			return b.n, nil
		}
		if err != nil {
			return b.n, refuse(err)
		}
		if err := b.replay(ctx, g, body, tables); err != nil {
			return b.n, refuse(fmt.Errorf("key group %d: %w", g, err))
		}
	}
}

// openSegment opens the bytes of a segment; the last Read verifies the checksum.
func openSegment(ctx context.Context, objects state.Objects, h state.Handle) (io.ReadCloser, error) {
	if h.Scope != state.Inline {
		return objects.Read(ctx, h)
	}
	if int64(len(h.Bytes)) != h.Size || crc32.Checksum(h.Bytes, castagnoli) != h.CRC {
		return nil, fmt.Errorf("%w: checksum of an inline segment", errSegment)
	}
	return io.NopCloser(bytes.NewReader(h.Bytes)), nil
}

// tablesOf maps the state numbers of a segment to those of the store's tables,
// and refuses states that the operator declares otherwise.
func (s *Store) tablesOf(h *SegmentHeader) (map[uint16]int, error) {
	if h.MaxParallelism != s.MaxParallelism {
		return nil, stream.Errorf(stream.RestoreRefused, "state.max_parallelism", "restore keyed state", s.name(),
			"stored with %d key groups, the job has %d", h.MaxParallelism, s.MaxParallelism)
	}
	if h.Lineage != s.Lineage {
		return nil, stream.Errorf(stream.RestoreRefused, "state.foreign_lineage", "restore keyed state", s.name(),
			"a segment of lineage %s, the job is %s", h.Lineage, s.Lineage)
	}
	m := map[uint16]int{}
	for _, n := range h.States {
		for i, d := range s.Descriptors {
			if d.Name == n.State {
				if err := n.accepts(d); err != nil {
					return nil, err
				}
				m[n.ID] = i
			}
		}
	}
	return m, nil
}

// replayBatch collects entries for a sink.
type replayBatch struct {
	sink    Sink
	entries []Replayed
	keys    []byte
	n       int64
}

func (b *replayBatch) replay(ctx context.Context, g stream.KeyGroup, body []byte, tables map[uint16]int) error {
	table, last := -1, -1
	err := eachRecord(body, func(full, value []byte, del bool) (err error) {
		start := len(b.keys)
		group, state, key, err := splitKey(full, b.keys[start:start:cap(b.keys)])
		if err != nil {
			return err
		}
		if group != g {
			return fmt.Errorf("%w: a key of group %d", errSegment, group)
		}
		if len(key) != len(full)-keyPrefix-keyTerminator { // unescaped into b.keys
			b.keys = append(b.keys[:start], key...)
		}
		if last != int(state) {
			last = int(state)
			var ok bool
			if table, ok = tables[state]; !ok {
				table = -1
			}
		}
		if table < 0 {
			return nil // a state that the operator no longer declares
		}
		if !del {
			if value, err = openEnvelope(value); err != nil {
				return err
			}
		}
		b.entries = append(b.entries, Replayed{Table: table, Key: key, Hash: stream.Hash(key), Live: !del, Value: value})
		if len(b.entries) == groupSize {
			return b.flush(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

func (b *replayBatch) flush(ctx context.Context) error {
	b.n += int64(len(b.entries))
	err := b.sink.Put(ctx, b.entries)
	b.entries, b.keys = b.entries[:0], b.keys[:0]
	return err
}

// Put implements Sink: entries that the base does not have.
func (s *Store) Put(_ context.Context, entries []Replayed) error {
	var hashes [groupSize]uint64
	var at [groupSize]uint32
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && n < groupSize && entries[n].Table == entries[0].Table {
			n++
		}
		t := s.tables[entries[0].Table]
		for i, e := range entries[:n] {
			hashes[i] = e.Hash
		}
		t.touch(hashes[:n], &at)
		for i := range entries[:n] {
			if err := t.replay(&entries[i]); err != nil {
				return err
			}
		}
		entries = entries[n:]
	}
	return nil
}

// replay makes an entry what a segment says. A deletion leaves a tombstone only
// where there is a base to hide.
func (t *table) replay(e *Replayed) error {
	x := uint32(e.Hash)
	addr := t.find(e.Key, x)
	if addr == 0 {
		if !e.Live && !t.store.tiered {
			return nil
		}
		var err error
		if addr, err = t.insert(e.Key, x, len(e.Value)); err != nil {
			return err
		}
	}
	h := t.at(addr)
	if !e.Live && !t.store.tiered {
		t.unlink(addr, h)
		t.freeSlot(addr)
		return nil
	}
	if len(e.Value) > t.room(addr, h) {
		addr, h = t.move(addr, h, len(e.Value))
		t.settle()
	}
	if h.epoch <= t.captured {
		t.unapplied += int64(t.size(addr, h))
	}
	h.epoch = restored
	h.flags &^= live
	if e.Live {
		h.flags |= live
	}
	h.vlen = uint32(copy(h.value(len(e.Value)), e.Value))
	return nil
}
