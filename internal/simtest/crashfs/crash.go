package crashfs

import (
	"math/rand/v2"
	"slices"
)

// sector is what a disk writes as a whole.
const sector = 512

// Crash returns the file system as it would be found after a loss of power now.
// With rnd nil nothing unsynced survives; else each unsynced name, and each
// sector of each unsynced write, is kept or lost by rnd. Locks are gone.
func (f *FS) Crash(rnd *rand.Rand) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := crash{rnd: rnd, seen: map[*node]*node{}, moved: map[place]bool{}}
	c.draw(f.moves)
	g := New()
	g.root = c.dir(f.root)
	return g
}

type crash struct {
	rnd  *rand.Rand
	seen map[*node]*node // a file may have several names
	// moved are the names that RenameNew has changed, and whether that survives.
	moved map[place]bool
}

func (c *crash) keep() bool { return c.rnd != nil && c.rnd.IntN(2) == 0 }

func (c *crash) node(n *node) *node {
	switch m, ok := c.seen[n]; {
	case ok:
		return m
	case n.names != nil:
		return c.dir(n)
	}
	m := c.file(n)
	c.seen[n] = m
	return m
}

func (c *crash) dir(n *node) *node {
	m := newDir(n.mode)
	c.seen[n] = m
	for _, name := range union(n.names, n.durable) {
		left := n.durable[name]
		if now := n.names[name]; now != left && c.kept(n, name) {
			left = now
		}
		if left != nil {
			m.names[name] = c.node(left)
			m.durable[name] = m.names[name]
		}
	}
	return m
}

func union(a, b map[string]*node) (names []string) {
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names) // the same seed must mean the same crash
	return slices.Compact(names)
}

func (c *crash) file(n *node) *node {
	m := &node{mode: n.mode, data: slices.Clone(n.synced)}
	for _, w := range n.unsynced {
		if c.keep() { // the new length reached the disk, the bytes need not have
			m.data = change{off: w.off + len(w.data)}.apply(m.data)
		}
		for from := 0; from < len(w.data); from += sector {
			if c.keep() {
				m.data = change{off: w.off + from, data: w.data[from:min(from+sector, len(w.data))]}.apply(m.data)
			}
		}
	}
	m.synced = slices.Clone(m.data)
	return m
}
