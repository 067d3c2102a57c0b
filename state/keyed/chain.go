package keyed

import (
	"cmp"
	"fmt"
	"slices"

	"etl/state"
	"etl/stream"
)

// Chain is what one subtask's keyed state is restored from: a base, or none, and
// the segments after it, without a gap.
type Chain struct {
	KeyGroups stream.KeyGroupRange
	Base      []state.Handle
	Segments  []state.Handle
}

// BaseEnd returns the checkpoint at which the base ends, NoCheckpoint for none.
func (c *Chain) BaseEnd() stream.CheckpointID {
	if len(c.Base) == 0 {
		return stream.NoCheckpoint
	}
	return c.Base[0].To
}

// BaseName returns the name of the base, "" for none.
func (c *Chain) BaseName() string {
	if len(c.Base) == 0 {
		return ""
	}
	return c.Base[0].Base
}

// Chains sorts the keyed handles of one operator at checkpoint id into the
// chains of its subtasks, which are told apart by their key groups, and refuses
// what is not gapless up to id.
func Chains(uid stream.UID, id stream.CheckpointID, hs []state.Handle) ([]Chain, error) {
	var chains []Chain
	at := map[stream.KeyGroupRange]int{}
	for _, h := range hs {
		if h.Role != state.Segment && h.Role != state.BaseFile {
			continue
		}
		i, ok := at[h.KeyGroups]
		if !ok {
			i = len(chains)
			at[h.KeyGroups] = i
			chains = append(chains, Chain{KeyGroups: h.KeyGroups})
		}
		if c := &chains[i]; h.Role == state.Segment {
			c.Segments = append(c.Segments, h)
		} else {
			c.Base = append(c.Base, h)
		}
	}
	slices.SortFunc(chains, func(a, b Chain) int { return cmp.Compare(a.KeyGroups.From, b.KeyGroups.From) })
	for i := range chains {
		if err := chains[i].check(id); err != nil {
			return nil, stream.Errorf(stream.RestoreRefused, "state.broken_chain", "restore keyed state", string(uid), "%w", err)
		}
		if i > 0 && chains[i].KeyGroups.From < chains[i-1].KeyGroups.To {
			return nil, stream.Errorf(stream.RestoreRefused, "state.broken_chain", "restore keyed state", string(uid),
				"two subtasks hold key group %d", chains[i].KeyGroups.From)
		}
	}
	return chains, nil
}

// check sorts the segments and reports a gap (I7).
func (c *Chain) check(id stream.CheckpointID) error {
	slices.SortStableFunc(c.Segments, func(a, b state.Handle) int { return cmp.Compare(a.To, b.To) })
	for _, h := range c.Base {
		if h.Base != c.BaseName() || h.To != c.BaseEnd() {
			return fmt.Errorf("files of two bases, %s and %s", c.BaseName(), h.Base)
		}
	}
	end := c.BaseEnd()
	for _, h := range c.Segments {
		if h.From != end || h.To <= h.From {
			return fmt.Errorf("segment (%s, %s] does not follow %s", h.From, h.To, end)
		}
		end = h.To
	}
	if end != id {
		return fmt.Errorf("the chain ends at %s instead of %s", end, id)
	}
	return nil
}

// link is a segment in a live chain.
type link struct {
	state.Handle
	// pinned: the base may bear this segment's end as its mark, so that it must
	// stay the end of a segment.
	pinned bool
}

// history is the chain of a running store. It is never changed in place, so
// that a snapshot that comes to nothing leaves the one before as it was.
type history struct {
	base  *Base
	links []link
}

// end returns the checkpoint the history ends at.
func (h history) end() stream.CheckpointID {
	if l := len(h.links); l > 0 {
		return h.links[l-1].To
	}
	if h.base != nil {
		return h.base.To
	}
	return stream.NoCheckpoint
}

// on returns the history beginning with another base, which holds everything up
// to its end.
func (h history) on(b *Base) history {
	n := history{base: b}
	for _, l := range h.links {
		if l.To > b.To {
			n.links = append(n.links, l)
		}
	}
	return n
}

// with returns the history with one more segment. A segment without entries at
// the end only says that nothing changed: the new one covers its epochs too, so
// that an idle store's chain does not grow.
func (h history) with(l link) history {
	n := history{base: h.base, links: slices.Clip(slices.Clone(h.links))}
	if k := len(n.links); k > 0 && n.links[k-1].Entries == 0 && !n.links[k-1].pinned {
		n.links = n.links[:k-1]
	}
	n.links = append(n.links, l)
	return n
}

// from returns where the next segment begins, as with lays it.
func (h history) from() stream.CheckpointID {
	if k := len(h.links); k > 0 && h.links[k-1].Entries == 0 && !h.links[k-1].pinned {
		return h.links[k-1].From
	}
	return h.end()
}

// since returns size and number of the segments after a checkpoint.
func (h history) since(id stream.CheckpointID) (bytes int64, count int) {
	for _, l := range h.links {
		if l.To > id {
			bytes, count = bytes+l.Size, count+1
		}
	}
	return bytes, count
}

// handles returns the whole chain as metadata lists it.
func (h history) handles() []state.Handle {
	var out []state.Handle
	if h.base != nil {
		out = append(out, h.base.Handles...)
	}
	for _, l := range h.links {
		out = append(out, l.Handle)
	}
	return out
}

// Overlapping returns the chains that have key groups of r.
func Overlapping(chains []Chain, r stream.KeyGroupRange) (out []Chain) {
	for _, c := range chains {
		if c.KeyGroups.From < r.To && r.From < c.KeyGroups.To {
			out = append(out, c)
		}
	}
	return out
}

// Same returns the one chain that has exactly the key groups of r, nil if the
// operator was rescaled or is new.
func Same(chains []Chain, r stream.KeyGroupRange) *Chain {
	if len(chains) == 1 && chains[0].KeyGroups == r {
		return &chains[0]
	}
	return nil
}
