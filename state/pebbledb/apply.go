package pebbledb

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"etl/internal/fault"
	"etl/state"
	"etl/state/keyed"
)

const (
	runBytes   = 8 << 20 // sorted together: sorted runs cost half of what random ones do
	batchBytes = 1 << 20
)

// apply brings a capture into the base. The mark says so from its first batch to
// its last, so that a process that dies in between leaves a base of which is
// known what it has.
func (b *Backend) apply(o *offer) error {
	base, err := b.ensureBase()
	if err != nil {
		return err
	}
	w, err := b.beginChange(base, o.tier.id, b.markOf(o.capture.Segment))
	if err != nil {
		return err
	}
	fault.Point("state.apply.begun")
	if err := o.capture.Each(w.add); err != nil {
		return err
	}
	return w.end()
}

// ensureBase opens a new base when there is none.
func (b *Backend) ensureBase() (*base, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	have := b.base
	b.mu.Unlock()
	if have != nil {
		return have, nil
	}
	name, err := b.cfg.random(6)
	if err != nil {
		return nil, err
	}
	n, err := b.createBase(b.cfg.FS.PathJoin(b.cfg.Dir, basePrefix+name))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.use(n)
	return n, nil
}

// createBase makes an empty database that says whose it is.
func (b *Backend) createBase(dir string) (*base, error) {
	o := b.options()
	o.ErrorIfExists = true
	n := &base{dir: dir, stored: map[string]state.Handle{}}
	n.meta = meta{origin: origin{Lineage: b.cfg.Lineage, MaxParallelism: b.cfg.MaxParallelism}, marks: map[storeID]mark{}}
	err := b.within("make a local state base", func() (err error) {
		if n.db, err = pebble.Open(dir, o); err != nil {
			return err
		}
		batch := n.db.NewBatch()
		if err := setJSON(batch, originKey, n.meta.origin); err != nil {
			return err
		}
		if err := setJSON(batch, namesKey, b.names.All()); err != nil {
			return err
		}
		return batch.Commit(pebble.NoSync)
	})
	return n, err
}

// writer applies records in sorted runs.
type writer struct {
	b    *Backend
	db   *pebble.DB
	id   storeID
	base *base
	next mark
	buf  []byte
	run  []item
}

type item struct {
	off, key, value int // in buf
	live            bool
}

// beginChange notes that the base is on its way to next.
func (b *Backend) beginChange(base *base, id storeID, next mark) (*writer, error) {
	b.mu.Lock()
	now, ok := base.meta.marks[id]
	b.mu.Unlock()
	if !ok {
		now = mark{Lineage: b.cfg.Lineage}
	}
	now.Next = &next
	w := &writer{b: b, db: base.db, id: id, base: base, next: next}
	err := guard(func() error {
		batch := base.db.NewBatch()
		if err := setJSON(batch, namesKey, b.names.All()); err != nil {
			return err
		}
		if err := setJSON(batch, id.key(), now); err != nil {
			return err
		}
		return w.commit(batch)
	})
	if err == nil {
		b.mu.Lock()
		base.meta.marks[id] = now
		b.mu.Unlock()
	}
	return w, err
}

// add takes a record; its bytes are copied.
func (w *writer) add(r keyed.Record) error {
	w.run = append(w.run, item{len(w.buf), len(r.Key), len(r.Value), r.Live})
	w.buf = append(append(w.buf, r.Key...), r.Value...)
	if len(w.buf) < runBytes {
		return nil
	}
	return w.flush(nil)
}

func (w *writer) keyOf(i item) []byte { return w.buf[i.off : i.off+i.key] }

// flush sorts and writes the run; last may add to its last batch. Of records with
// the same key the later one counts.
func (w *writer) flush(last func(*pebble.Batch) error) error {
	slices.SortFunc(w.run, func(x, y item) int {
		return cmp.Or(bytes.Compare(w.keyOf(x), w.keyOf(y)), cmp.Compare(x.off, y.off))
	})
	err := w.b.within("apply changes", func() error {
		batch := w.db.NewBatch()
		var envelope []byte
		for _, i := range w.run {
			key := w.keyOf(i)
			var err error
			if i.live {
				envelope = keyed.AppendEnvelope(envelope[:0], w.buf[i.off+i.key:i.off+i.key+i.value])
				err = batch.Set(key, envelope, nil)
			} else {
				err = batch.Delete(key, nil)
			}
			if err != nil {
				return err
			}
			if batch.Len() >= batchBytes {
				if err := w.commit(batch); err != nil {
					return err
				}
				batch = w.db.NewBatch()
			}
		}
		if last != nil {
			if err := last(batch); err != nil {
				return err
			}
		}
		return w.commit(batch)
	})
	w.buf, w.run = w.buf[:0], w.run[:0]
	return err
}

// commit writes a batch, unless the base has failed: with a full disk the write
// after next would wait for ever.
func (w *writer) commit(batch *pebble.Batch) error {
	if err := w.b.Err(); err != nil {
		return err
	}
	fault.Point("state.apply.batch")
	if err := batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	return batch.Close()
}

// end writes the rest and, with it, the mark.
func (w *writer) end() error {
	err := w.flush(func(batch *pebble.Batch) error { return setJSON(batch, w.id.key(), w.next) })
	if err != nil {
		return err
	}
	fault.Point("state.apply.done")
	w.base.unflushed.Store(true)
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.base.meta.marks[w.id] = w.next
	return nil
}

// sink replays segments that do not fit into memory into the base.
type sink struct {
	w     *writer
	store *keyed.Store
	key   []byte
}

// Put implements keyed.Sink.
func (s *sink) Put(_ context.Context, entries []keyed.Replayed) error {
	for _, e := range entries {
		s.key = s.store.AppendKey(s.key[:0], e.Table, e.Key)
		if err := s.w.add(keyed.Record{Live: e.Live, Key: s.key, Value: e.Value}); err != nil {
			return err
		}
	}
	return nil
}
