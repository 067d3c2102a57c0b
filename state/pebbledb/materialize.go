package pebbledb

import (
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"etl/internal/fault"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

const (
	basePrefix    = "base-"    // local databases
	stagingPrefix = "staging-" // hard-link copies on their way to storage
	loadPrefix    = "load-"    // bases on their way from it
	scratchPrefix = "scratch-"
	distrustName  = ".distrusted" // beside a database that must not be used again
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// materialized is a base in checkpoint storage.
type materialized struct {
	name  string
	marks map[storeID]mark
	files []state.Handle // without what differs from store to store
	size  int64
	after stream.CheckpointID // it counts for checkpoints after this one
	own   bool
	dir   string // of the hard-link copy
}

// of returns the base as the chain of a store lists it.
func (m *materialized) of(id storeID, to mark) *keyed.Base {
	b := &keyed.Base{Name: m.name, To: to.ID, Own: m.own, Handles: slices.Clone(m.files)}
	for i := range b.Handles {
		b.Handles[i].To, b.Handles[i].KeyGroups = to.ID, id.groups
	}
	return b
}

// localFile is a file of a hard-link copy.
type localFile struct {
	name    string
	size    int64
	entries int64
}

// link flushes the base and takes a hard-link copy of it, which is a consistent
// cut because nobody but the keeper writes to the base.
func (b *Backend) link() (m *materialized, files []localFile, err error) {
	random, err := b.cfg.random(6)
	if err != nil {
		return nil, nil, err
	}
	m = &materialized{name: fmt.Sprintf("%s-%d-%s", b.cfg.Lineage.Short(), b.cfg.Attempt, random)}
	m.dir = b.cfg.FS.PathJoin(b.cfg.Dir, stagingPrefix+random)
	b.mu.Lock()
	base, anew := b.base, b.anew
	b.mu.Unlock()
	if err := b.dedicate(base, m, anew); err != nil {
		return m, nil, err
	}
	if err := b.flush(base); err != nil {
		return m, nil, err
	}
	fault.Point("K09-before-links")
	entries := map[string]int64{}
	err = b.within("copy the local state base", func() error {
		if err := tableEntries(base.db, entries); err != nil {
			return err
		}
		if err := base.db.Checkpoint(m.dir); err != nil {
			return err
		}
		return tableEntries(base.db, entries)
	})
	if err == nil {
		err = b.Err() // Checkpoint returns nil on a full disk, too
	}
	if err != nil {
		return m, nil, err
	}
	files, err = b.listFiles(m.dir, entries)
	return m, files, err
}

// dedicate writes the name of the materialization into the base, and the marks
// of the stores if key groups have moved.
func (b *Backend) dedicate(base *base, m *materialized, anew bool) error {
	o := origin{Lineage: b.cfg.Lineage, MaxParallelism: b.cfg.MaxParallelism, Base: m.name}
	return b.within("name a base", func() error {
		batch := base.db.NewBatch()
		if err := setJSON(batch, originKey, o); err != nil {
			return err
		}
		b.mu.Lock()
		if anew {
			b.settleMarks(base)
		}
		base.meta.origin = o
		m.marks = maps.Clone(base.meta.marks)
		b.mu.Unlock()
		if anew {
			if err := writeMarks(batch, m.marks); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.NoSync)
	})
}

// tableEntries adds the number of entries of every table. Opening a base checks
// that it has exactly these: Pebble takes a damaged manifest for an empty database.
func tableEntries(db *pebble.DB, entries map[string]int64) error {
	levels, err := db.SSTables(pebble.WithProperties())
	if err != nil {
		return err
	}
	for _, level := range levels {
		for _, t := range level {
			if !t.Virtual && t.Properties != nil {
				entries[fmt.Sprintf("%s.sst", t.BackingSSTNum)] = int64(t.Properties.NumEntries)
			}
		}
	}
	return nil
}

func (b *Backend) listFiles(dir string, entries map[string]int64) (files []localFile, err error) {
	names, err := b.cfg.FS.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := b.cfg.FS.Stat(b.cfg.FS.PathJoin(dir, name))
		if err != nil {
			return nil, err
		}
		if info.IsDir() || name == "LOCK" {
			continue
		}
		files = append(files, localFile{name: name, size: info.Size(), entries: entries[name]})
	}
	return files, nil
}

// upload stores the files of a copy that storage does not have. The copy goes on
// every path.
func (b *Backend) upload(m *materialized, files []localFile, private bool) (err error) {
	defer func() { _ = b.cfg.FS.RemoveAll(m.dir) }()
	m.own = private
	for _, f := range files {
		h, err := b.uploadFile(m, f, private)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		h.Base, h.File = m.name, f.name
		m.files = append(m.files, h)
		m.size += h.Size
		fault.Point("K10-base-file-uploaded")
	}
	return b.Err()
}

// immutable reports whether a file never changes under its name, so that many
// bases may share it.
func immutable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

func (b *Backend) uploadFile(m *materialized, f localFile, private bool) (h state.Handle, err error) {
	share := immutable(f.name) && !private
	if share {
		if h, ok, err := b.alreadyStored(m, f); ok || err != nil {
			return h, err
		}
	}
	r, err := b.openFile(b.cfg.FS.PathJoin(m.dir, f.name))
	if err != nil {
		return h, err
	}
	defer r.Close()
	name := b.cfg.ObjectName(fmt.Sprintf("base-%s-%s", m.name[strings.LastIndexByte(m.name, '-')+1:], f.name))
	size, crc, err := b.restored.Objects.Create(b.ctx, name, r)
	if err != nil {
		return h, err
	}
	if size != f.size || crc != r.sum.Sum32() {
		return h, fmt.Errorf("%d bytes with checksum %08x were stored of %d with %08x", size, crc, f.size, r.sum.Sum32())
	}
	h = state.Handle{Role: state.BaseFile, Scope: state.Shared, Object: name, Size: size, CRC: crc, Entries: f.entries}
	if private {
		h.Scope = state.Private
	} else if share {
		b.mu.Lock()
		b.base.stored[f.name] = h
		b.mu.Unlock()
	}
	return h, nil
}

// alreadyStored returns the handle of a file that storage has. A file of an
// earlier life of the process is compared first: numbers are given again.
func (b *Backend) alreadyStored(m *materialized, f localFile) (h state.Handle, ok bool, err error) {
	b.mu.Lock()
	h, ok = b.base.stored[f.name]
	old, maybe := b.base.unchecked[f.name]
	delete(b.base.unchecked, f.name)
	b.mu.Unlock()
	if ok || !maybe || old.Size != f.size {
		return h, ok, nil
	}
	r, err := b.openFile(b.cfg.FS.PathJoin(m.dir, f.name))
	if err != nil {
		return h, false, err
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil || r.sum.Sum32() != old.CRC {
		return h, false, err
	}
	b.mu.Lock()
	b.base.stored[f.name] = old
	b.mu.Unlock()
	return old, true, nil
}

// summed is a file whose checksum is computed as it is read.
type summed struct {
	io.ReadCloser
	sum hash.Hash32
}

func (b *Backend) openFile(name string) (*summed, error) {
	f, err := b.cfg.FS.Open(name)
	if err != nil {
		return nil, err
	}
	s := &summed{ReadCloser: f}
	s.reset()
	return s, nil
}

func (s *summed) reset() { s.sum = crc32.New(castagnoli) }

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	_, _ = s.sum.Write(p[:n])
	return n, err
}
