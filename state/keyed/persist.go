package keyed

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/invariant"
	"etl/state"
	"etl/stream"
)

// snapshot implements state.Snapshot.
type snapshot struct {
	s  *Store
	sd *sealed
}

// Persist implements state.Snapshot: B6, the slow part.
func (p *snapshot) Persist(ctx context.Context, up state.Uploader) ([]state.Handle, error) {
	s, sd := p.s, p.sd
	select {
	case <-sd.done:
	case <-s.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h, err := s.base(ctx, sd)
	if err != nil {
		return nil, err
	}
	frame, l, err := s.encode(sd, h)
	if err != nil {
		return nil, err
	}
	if err := s.store(ctx, up, frame, &l); err != nil {
		return nil, fmt.Errorf("segment of %s at %s: %w", s.name(), sd.id, err)
	}
	return s.advance(sd, h, l), nil
}

// store makes a frame durable. One without entries only says that nothing
// changed: it lies in the metadata, and an idle job writes nothing else.
func (s *Store) store(ctx context.Context, up state.Uploader, frame []byte, l *link) error {
	l.Size = int64(len(frame))
	if l.Entries == 0 {
		l.Scope, l.Bytes, l.CRC = state.Inline, bytes.Clone(frame), crc32.Checksum(frame, castagnoli)
		s.Budget.recycleFrame(frame)
		return nil
	}
	fault.Point("K13-segment-encoded")
	got, err := up.Append(state.Segment, frame).Wait(ctx)
	if err != nil {
		return err
	}
	invariant.Check(got.Size == l.Size, "a segment of %d bytes became %d", l.Size, got.Size)
	if got.Scope != state.Inline {
		s.Budget.recycleFrame(frame)
	}
	l.Scope, l.Object, l.Offset, l.CRC, l.Bytes = got.Scope, got.Object, got.Offset, got.CRC, got.Bytes
	return nil
}

// base returns the history that the snapshot goes on with, on the newest base.
func (s *Store) base(ctx context.Context, sd *sealed) (history, error) {
	s.mu.Lock()
	h := s.hist
	s.mu.Unlock()
	if sd.kind == everything {
		return history{}, nil
	}
	if s.tier == nil {
		return h, nil
	}
	b, err := s.tier.Base(ctx, sd.id)
	switch {
	case err != nil:
		return h, fmt.Errorf("base of %s at %s: %w", s.name(), sd.id, err)
	case sd.kind == sinceBase:
		return history{base: b}, nil
	case b != nil && (h.base == nil || h.base.Name != b.Name):
		return h.on(b), nil
	}
	return h, nil
}

// encode returns the frame of a snapshot: its own changes and those of earlier
// snapshots that came to nothing.
func (s *Store) encode(sd *sealed, h history) ([]byte, link, error) {
	e := encoder{coders: s.coders, header: SegmentHeader{
		Lineage: s.Lineage, From: h.from(), To: sd.id, KeyGroups: s.KeyGroups, MaxParallelism: s.MaxParallelism, Task: s.Task,
	}}
	for i, t := range s.tables {
		d := s.Descriptors[i]
		e.header.States = append(e.header.States, Name{ID: t.keys.state, UID: s.Task.UID, State: d.Name, Kind: d.Kind, Serializer: d.Serializer})
	}
	for _, p := range s.unpersisted(sd) {
		src, err := p.sources()
		if err != nil {
			return nil, link{}, err
		}
		e.sources = append(e.sources, src...)
		if p.kind == everything {
			e.header.From = stream.NoCheckpoint
		}
	}
	frame, err := e.encode(s.Budget)
	l := link{Handle: state.Handle{
		Role: state.Segment, From: e.header.From, To: sd.id, Entries: e.header.Entries, KeyGroups: s.KeyGroups,
	}, pinned: sd.offer}
	return frame, l, err
}

// unpersisted returns the sealed epochs that the segment of sd consists of. A
// capture of more than an epoch makes those before it unnecessary.
func (s *Store) unpersisted(sd *sealed) (out []*sealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pending {
		if p.id > sd.id || p.in != stream.NoCheckpoint {
			continue
		}
		if p.kind != deltaOnly {
			out = out[:0]
		}
		out = append(out, p)
	}
	return out
}

// sources returns the records of one sealed epoch: first what had been spilled,
// which is older where a key comes twice.
func (p *sealed) sources() ([]source, error) {
	epoch := p.epoch
	if p.kind != deltaOnly {
		epoch = 0
	}
	if p.view == nil {
		return []source{{&p.delta, epoch}}, nil
	}
	if p.early == nil {
		early := &delta{mem: p.delta.mem}
		lo := p.epoch - 1
		if p.kind != deltaOnly {
			lo = p.lo
		}
		if err := p.drain(lo, early); err != nil {
			return nil, err
		}
		p.early = early
	}
	return []source{{p.early, 0}, {&p.delta, epoch}}, nil
}

// advance makes the segment part of the store's history.
func (s *Store) advance(sd *sealed, h history, l link) []state.Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	sd.before, sd.sizeWas = s.hist, s.size
	if l.From == stream.NoCheckpoint && h.base == nil {
		h = history{}
		s.size = l.Size
	}
	if h.base != nil && (s.hist.base == nil || s.hist.base.Name != h.base.Name) {
		s.size = 0
		for _, f := range h.base.Handles {
			s.size += f.Size
		}
	}
	s.hist = h.with(l)
	sd.segment = l.Handle
	for _, p := range s.pending {
		if p.id <= sd.id && p.in == stream.NoCheckpoint {
			p.in = sd.id
		}
	}
	return s.hist.handles()
}

// Release implements state.Snapshot. Without an acknowledgement that counts, the
// segment, if there is one, leaves the chain again unless a later one stands on
// it, and its changes become part of the next (I7).
func (p *snapshot) Release(persisted bool) {
	s, sd := p.s, p.sd
	s.mu.Lock()
	sd.released = true
	if !persisted && sd.in == sd.id && s.hist.end() == sd.id {
		s.takeBack(sd)
	}
	if !persisted && broken.Is(broken.AbortedDeltaDropped) {
		sd.in = sd.id
	}
	drop := s.dropPersisted(sd)
	s.mu.Unlock()
	for _, d := range drop {
		if d != sd || !sd.offer {
			d.free()
		}
	}
	if sd.offer {
		s.handOver(sd)
	}
}

// takeBack takes the segment of sd out of the history again.
func (s *Store) takeBack(sd *sealed) {
	s.hist, s.size = sd.before, sd.sizeWas
	for _, p := range s.pending {
		if p.in == sd.id {
			p.in = stream.NoCheckpoint
		}
	}
}

// dropPersisted takes the persisted epochs up to sd, whose changes are in the
// chain, out of the pending ones.
func (s *Store) dropPersisted(sd *sealed) (drop []*sealed) {
	s.pending = slices.DeleteFunc(s.pending, func(p *sealed) bool {
		if p.id > sd.id || !p.released || p.in == stream.NoCheckpoint {
			return false
		}
		drop = append(drop, p)
		return true
	})
	return drop
}

// handOver gives a capture to the base if it ends where a segment does. If not,
// the next barrier captures again: the entries still have their epochs.
func (s *Store) handOver(sd *sealed) {
	if sd.segment.To != sd.id || sd.in == stream.NoCheckpoint {
		sd.offer = false
		s.capturing.Store(false)
		return
	}
	s.tier.Offer(&Capture{ID: sd.id, Segment: sd.segment, Entries: sd.delta.entries, store: s, sealed: sd})
}
