package pebbledb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"etl/internal/broken"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// Restore implements state.Backend: V7. It finds the base that the checkpoint's
// chains begin with: on the local disk if the one there stands at the end of
// their segments, in checkpoint storage otherwise. Segments are replayed by Open.
func (b *Backend) Restore(ctx context.Context, r state.Restored) error {
	b.restored = r
	b.chains = map[stream.UID][]keyed.Chain{}
	for uid, hs := range r.Keyed {
		chains, err := keyed.Chains(uid, r.ID, hs)
		if err != nil {
			return err
		}
		b.chains[uid] = chains
	}
	if err := b.cfg.FS.MkdirAll(b.cfg.Dir, 0o700); err != nil {
		return environment(b.cfg.Dir, err)
	}
	dirs, err := b.clean()
	if err != nil {
		return environment(b.cfg.Dir, err)
	}
	files, err := b.baseFiles()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if b.base != nil || !b.adopt(dir, files) {
			b.discard(dir)
		}
	}
	if b.base == nil && len(files) > 0 {
		if err := b.load(ctx, files); err != nil {
			return err
		}
	}
	if b.base == nil {
		return nil
	}
	for _, h := range files {
		b.restoredSize += h.Size
	}
	b.names.Load(b.base.meta.names)
	return b.purge()
}

func environment(dir string, err error) error {
	return stream.Errorf(stream.Environment, "state.dir", "open the local state", dir, "%w", err).
		WithFix("the folder must be writable and on a disk with free space")
}

// clean removes what earlier lives of the process left that is of no use, and
// returns the local databases. A folder is only ever removed by its exact kind of
// name: others may keep things here.
func (b *Backend) clean() (dirs []string, err error) {
	names, err := b.cfg.FS.List(b.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		full := b.cfg.FS.PathJoin(b.cfg.Dir, name)
		switch {
		case strings.HasPrefix(name, stagingPrefix), strings.HasPrefix(name, loadPrefix), strings.HasPrefix(name, scratchPrefix):
			if err := b.cfg.FS.RemoveAll(full); err != nil {
				return nil, err
			}
		case strings.HasPrefix(name, basePrefix) && !strings.HasSuffix(name, distrustName):
			dirs = append(dirs, full)
		}
	}
	return dirs, nil
}

// baseFiles returns the files of the base of all chains, by name. A checkpoint
// of one process has one base.
func (b *Backend) baseFiles() (map[string]state.Handle, error) {
	files := map[string]state.Handle{}
	name := ""
	for uid, chains := range b.chains {
		for i := range chains {
			c := &chains[i]
			if len(c.Base) == 0 {
				continue
			}
			if name != "" && c.BaseName() != name {
				return nil, stream.Errorf(stream.RestoreRefused, "state.several_bases", "restore keyed state", string(uid),
					"the checkpoint has two bases, %s and %s, written by different processes", name, c.BaseName())
			}
			name = c.BaseName()
			for _, h := range c.Base {
				files[h.File] = h
			}
		}
	}
	return files, nil
}

// baseName returns the name of the base of the chains, "" for none.
func baseName(files map[string]state.Handle) string {
	for _, h := range files {
		return h.Base
	}
	return ""
}

// adopt opens a local database and reports whether it may be used (I19).
func (b *Backend) adopt(dir string, files map[string]state.Handle) bool {
	if b.restored.ID == stream.NoCheckpoint {
		return false
	}
	if _, err := b.cfg.FS.Stat(dir + distrustName); err == nil {
		return false
	}
	b.probing.Store(true)
	defer b.probing.Store(false)
	n, err := b.openBase(dir, false)
	if err != nil {
		b.log().Warn("the local state base cannot be opened", "dir", dir, "error", err)
		return false
	}
	if err := b.fits(&n.meta); err != nil && !broken.Is(broken.ForeignBaseReused) {
		b.log().Info("the local state base does not belong to the restored checkpoint", "dir", dir, "reason", err)
		_ = b.closeDB(n.db)
		return false
	}
	n.stored, n.unchecked = map[string]state.Handle{}, files
	b.note(&n.meta)
	b.use(n)
	b.counts.reused.Add(1)
	return true
}

// use makes a database the backend's base.
func (b *Backend) use(n *base) {
	b.base = n
	b.baseDir.Store(&n.dir)
}

// openBase opens an existing database and reads what it says about itself.
func (b *Backend) openBase(dir string, readOnly bool) (*base, error) {
	o := b.options()
	o.ErrorIfNotExists, o.ReadOnly = true, readOnly
	n := &base{dir: dir}
	err := b.within("open a local state base", func() (err error) {
		if n.db, err = pebble.Open(dir, o); err != nil {
			return err
		}
		if n.meta, err = readMeta(n.db); err != nil {
			err = errors.Join(err, n.db.Close())
		}
		return err
	})
	return n, err
}

// fits reports why a database is no base of the restored chains.
func (b *Backend) fits(m *meta) error {
	switch {
	case m.origin.Lineage != b.cfg.Lineage:
		return fmt.Errorf("it is of lineage %s", m.origin.Lineage)
	case m.origin.MaxParallelism != b.cfg.MaxParallelism:
		return fmt.Errorf("it has %d key groups", m.origin.MaxParallelism)
	case m.moving:
		return errors.New("it was left while key groups were being moved")
	}
	of := 0
	for uid, chains := range b.chains {
		for i := range chains {
			c := &chains[i]
			k, ok := m.marks[storeID{uid, c.KeyGroups}]
			if ok {
				of++
			} else if len(c.Base) > 0 {
				return fmt.Errorf("it has nothing of %s", uid)
			}
			if _, fits := k.in(c, m.origin.Base); ok && !fits {
				return fmt.Errorf("its mark %s of %s is not the end of a segment in the chain", k.ID, uid)
			}
		}
	}
	for id := range m.marks {
		if chains, ok := b.chains[id.uid]; ok && !contains(chains, id.groups) {
			return fmt.Errorf("it has %s with other key groups", id.uid)
		}
	}
	if of == 0 {
		return errors.New("it has nothing of the checkpoint")
	}
	return nil
}

func contains(chains []keyed.Chain, groups stream.KeyGroupRange) bool {
	for i := range chains {
		if chains[i].KeyGroups == groups {
			return true
		}
	}
	return false
}

// note remembers how many segments of each chain the base has.
func (b *Backend) note(m *meta) {
	for uid, chains := range b.chains {
		for i := range chains {
			id := storeID{uid, chains[i].KeyGroups}
			k, ok := m.marks[id]
			if !ok {
				continue
			}
			if n, ok := k.in(&chains[i], m.origin.Base); ok {
				b.has[id] = n
			} else if broken.Is(broken.ForeignBaseReused) {
				b.has[id] = after(&chains[i], k.ID)
			}
		}
	}
}

// after returns how many segments of a chain end at id or before.
func after(c *keyed.Chain, id stream.CheckpointID) (n int) {
	for n < len(c.Segments) && c.Segments[n].To <= id {
		n++
	}
	return n
}

// discard deletes a database that is of no use, unless another process has it
// open: an old one that was fenced and does not know it yet.
func (b *Backend) discard(dir string) {
	b.counts.discarded.Add(1)
	lock, err := pebble.LockDirectory(dir, b.cfg.FS)
	if err != nil {
		return
	}
	_ = lock.Close()
	if b.cfg.FS.RemoveAll(dir) == nil {
		_ = b.cfg.FS.Remove(dir + distrustName)
	}
}

// distrust leaves word that the local database must not be used again.
func (b *Backend) distrust() {
	dir := b.baseDir.Load()
	if dir == nil {
		return
	}
	if f, err := b.cfg.FS.Create(*dir+distrustName, writeCategory); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// purge deletes what the base has of stores that the checkpoint does not know:
// an operator that was dropped, and may come back empty under the same name.
func (b *Backend) purge() error {
	base := b.base
	batch := base.db.NewBatch()
	for id := range base.meta.marks {
		if _, ok := b.has[id]; ok {
			continue
		}
		for _, n := range base.meta.names {
			if n.UID != id.uid {
				continue
			}
			for g := id.groups.From; g < id.groups.To; g++ {
				from, to := keyed.StateRange(g, n.ID)
				if err := batch.DeleteRange(from, to, nil); err != nil {
					return err
				}
			}
		}
		if err := batch.Delete(id.key(), nil); err != nil {
			return err
		}
		delete(base.meta.marks, id)
	}
	return guard(func() error { return batch.Commit(pebble.NoSync) })
}
