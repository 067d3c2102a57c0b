package pebbledb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/internal/fault"
	"etl/state"
	"etl/stream"
)

// writeCategory is what Pebble's file systems count our writes under.
const writeCategory = vfs.WriteCategoryUnspecified

// load fetches a base from checkpoint storage and opens it. Every file is
// verified against its handle before Pebble sees any: it opens a database with a
// damaged manifest as an empty one. What then opens must say that it is this base
// and have the tables and entries that were stored.
func (b *Backend) load(ctx context.Context, files map[string]state.Handle) error {
	random, err := b.cfg.random(6)
	if err != nil {
		return err
	}
	fs := b.cfg.FS
	tmp, dir := fs.PathJoin(b.cfg.Dir, loadPrefix+random), fs.PathJoin(b.cfg.Dir, basePrefix+random)
	if err := b.fetch(ctx, tmp, files); err != nil {
		return errors.Join(err, fs.RemoveAll(tmp))
	}
	if err := fs.Rename(tmp, dir); err != nil {
		return environment(dir, err)
	}
	if err := syncDir(fs, b.cfg.Dir); err != nil {
		return environment(dir, err)
	}
	fault.Point("K49-base-loaded")
	n, err := b.openVerified(dir, files)
	if err != nil {
		return errors.Join(unreadable(baseName(files), err), fs.RemoveAll(dir))
	}
	n.stored = map[string]state.Handle{}
	for name, h := range files {
		if immutable(name) && h.Scope == state.Shared {
			n.stored[name] = h
		}
	}
	b.note(&n.meta)
	b.use(n)
	return nil
}

func unreadable(name string, err error) error {
	if stream.CodeOf(err) != "" {
		return err
	}
	return stream.Errorf(stream.RestoreRefused, "state.base_unreadable", "restore keyed state", "base "+name, "%w", err).
		WithFix("restore an older checkpoint with --from, or a savepoint")
}

// fetch copies all files into a new folder.
func (b *Backend) fetch(ctx context.Context, dir string, files map[string]state.Handle) error {
	if err := b.cfg.FS.MkdirAll(dir, 0o700); err != nil {
		return environment(dir, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := b.fetchFile(ctx, b.cfg.FS.PathJoin(dir, name), files[name]); err != nil {
			return fmt.Errorf("file %s in %s: %w", name, files[name].Object, err)
		}
	}
	if err := syncDir(b.cfg.FS, dir); err != nil {
		return environment(dir, err)
	}
	return nil
}

func (b *Backend) fetchFile(ctx context.Context, to string, h state.Handle) (err error) {
	r, err := b.restored.Objects.Read(ctx, h)
	if err != nil {
		return unreadable(h.Base, err)
	}
	defer r.Close()
	f, err := b.cfg.FS.Create(to, writeCategory)
	if err != nil {
		return environment(to, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s := &summed{ReadCloser: r}
	s.reset()
	n, err := io.Copy(f, s)
	if err != nil {
		return unreadable(h.Base, err)
	}
	if n != h.Size || s.sum.Sum32() != h.CRC {
		return unreadable(h.Base, fmt.Errorf("%d bytes with checksum %08x instead of %d with %08x", n, s.sum.Sum32(), h.Size, h.CRC))
	}
	if err := f.Sync(); err != nil {
		return environment(to, err)
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openVerified opens a loaded base to look at it, and again to use it: once it
// may write, compactions change its tables.
func (b *Backend) openVerified(dir string, files map[string]state.Handle) (*base, error) {
	n, err := b.openBase(dir, true)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.verify(n, files), b.closeDB(n.db)); err != nil {
		return nil, err
	}
	return b.openBase(dir, false)
}

// verify compares a loaded base with what the chains say of it.
func (b *Backend) verify(n *base, files map[string]state.Handle) error {
	if o := n.meta.origin; o.Lineage != b.cfg.Lineage || o.Base != baseName(files) || o.MaxParallelism != b.cfg.MaxParallelism || n.meta.moving {
		return fmt.Errorf("it says that it is base %q of %s with %d key groups", o.Base, o.Lineage, o.MaxParallelism)
	}
	for uid, chains := range b.chains {
		for i := range chains {
			c := &chains[i]
			k, ok := n.meta.marks[storeID{uid, c.KeyGroups}]
			if len(c.Base) > 0 && (!ok || k.ID != c.BaseEnd() || k.Next != nil) {
				return fmt.Errorf("its mark of %s is %s instead of %s", uid, k.ID, c.BaseEnd())
			}
		}
	}
	return b.within("verify a base", func() error { return verifyTables(n.db, files) })
}

// verifyTables checks that the open database has the stored tables, all of them,
// with as many entries.
func verifyTables(db *pebble.DB, files map[string]state.Handle) error {
	levels, err := db.SSTables(pebble.WithProperties())
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, level := range levels {
		for _, t := range level {
			name := fmt.Sprintf("%s.sst", t.BackingSSTNum)
			h, ok := files[name]
			if !ok {
				return fmt.Errorf("it has a table %s that was not stored", name)
			}
			if t.Properties != nil && h.Entries > 0 && int64(t.Properties.NumEntries) != h.Entries {
				return fmt.Errorf("table %s has %d entries instead of %d", name, t.Properties.NumEntries, h.Entries)
			}
			found[name] = true
		}
	}
	for name, h := range files {
		if immutable(name) && h.Entries > 0 && !found[name] {
			return fmt.Errorf("it does not have the stored table %s", name)
		}
	}
	return nil
}
