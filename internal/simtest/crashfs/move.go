package crashfs

import (
	"io/fs"
	"slices"
)

// move is a RenameNew that a crash may undo.
type move struct {
	from, to *node // directories
	was, is  string
	n        *node
}

// RenameNew renames a file or directory; fs.ErrExist when newName is taken. It is one
// change, as on every file system that keeps a journal: a crash leaves the old name or
// the new one, and SyncDir of either directory makes it durable. [FS.Rename] promises
// less.
func (f *FS) RenameNew(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := Op{Kind: "renamenew", Name: oldName, To: newName}
	if err := f.did(o); err != nil {
		return err
	}
	from, was, err := f.parent(o.Kind, oldName)
	if err != nil {
		return err
	}
	to, is, err := f.parent(o.Kind, newName)
	if err != nil {
		return err
	}
	n := from.names[was]
	switch {
	case n == nil:
		return fail(o.Kind, oldName, fs.ErrNotExist)
	case to.names[is] != nil:
		return fail(o.Kind, newName, fs.ErrExist)
	}
	to.names[is] = n
	delete(from.names, was)
	f.moves = append(f.moves, move{from, to, was, is, n})
	return nil
}

// settle makes the moves durable that concern a directory which was synced.
func (f *FS) settle(d *node) {
	f.moves = slices.DeleteFunc(f.moves, func(m move) bool {
		if m.from != d && m.to != d {
			return false
		}
		if m.to.names[m.is] == m.n {
			m.to.durable[m.is] = m.n
		}
		if m.from.durable[m.was] == m.n && m.from.names[m.was] != m.n {
			delete(m.from.durable, m.was)
		}
		return true
	})
}

// draw decides which moves survive a crash.
func (c *crash) draw(moves []move) {
	for _, m := range moves {
		keep := c.keep()
		c.moved[place{m.from, m.was}], c.moved[place{m.to, m.is}] = keep, keep
	}
}

// place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// kept decides whether a change of a name survives.
func (c *crash) kept(d *node, name string) bool {
	if keep, ok := c.moved[place{d, name}]; ok {
		return keep
	}
	return c.keep()
}
