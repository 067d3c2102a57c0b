package verify

import "slices"

// The limits of the search for one key.
const (
	searchBudget = 200 // ways for each row and input, plus some to begin with
	searchStart  = 20000
	searchWidth  = 1024 // ways at the same time
	endsKept     = 64
)

// outcome is what a search found. ends are ways that explain all rows; when there are
// none, furthest are those that explain the most.
type outcome struct {
	ends, furthest []*way
	gaveUp         bool
}

// follow follows all ways from front.
func (h *history) follow(front []*way) (o outcome) {
	best := -1
	for len(front) > 0 {
		if h.budget -= len(front); h.budget < 0 || len(front) > searchWidth {
			o.gaveUp = true
			return o
		}
		var next []*way
		for _, w := range front {
			h.settle(w)
			if w.used > best {
				best, o.furthest = w.used, nil
			}
			if w.used == best && len(o.furthest) < endsKept {
				o.furthest = append(o.furthest, w)
			}
			if w.used == h.total {
				h.end(w)
				if len(o.ends) < endsKept {
					o.ends = append(o.ends, w)
				}
				continue
			}
			next = append(next, h.steps(w)...)
		}
		front = unique(next)
	}
	return o
}

// unique drops ways that have come to the same point.
func unique(ways []*way) []*way {
	if len(ways) < 2 {
		return ways
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(ways, func(w *way) bool {
		k := w.key()
		if w.dirty {
			k += "d"
		}
		was := seen[k]
		seen[k] = true
		return was
	})
}

// steps returns the ways that go on from w.
func (h *history) steps(w *way) []*way {
	if !h.a.onChange {
		return h.checkpointSteps(w)
	}
	var next []*way
	for s := range h.ins {
		in := h.head(w, s)
		if in == nil {
			continue
		}
		if h.try(w, in) == rejected {
			next = append(next, w.after(s, nil))
			continue
		}
		if !h.timeFits(w, in) {
			continue
		}
		v := w.after(s, h.scratch)
		next = append(next, h.matches(v, h.rows(v.state, in), in)...)
	}
	return next
}

// after returns w behind the next input of a stream; state is nil when that is
// rejected.
func (w *way) after(s int, state []cell) *way {
	v := w.clone()
	v.pos[s]++
	if state != nil {
		copy(v.state, state)
		v.known, v.dirty = true, true
	}
	return v
}

// checkpointSteps: a changed key can be written now, and if its row is there it was:
// whatever else could follow can follow from there, too. Otherwise one more input
// comes before the checkpoint.
func (h *history) checkpointSteps(w *way) []*way {
	if w.dirty {
		if rows := h.rows(w.state, nil); len(rows) > 0 {
			if found := h.matches(w, rows, nil); len(found) > 0 {
				for _, v := range found {
					v.dirty = false
				}
				return found
			}
		}
	}
	var next []*way
	for s := range h.ins {
		if in := h.head(w, s); in != nil {
			if h.try(w, in) == rejected {
				next = append(next, w.after(s, nil))
			} else {
				next = append(next, w.after(s, h.scratch))
			}
		}
	}
	return next
}

// end takes the inputs behind the last row that give none: whether they were
// processed cannot be seen, and nothing is missing of them.
func (h *history) end(w *way) {
	for moved := true; moved; {
		moved = false
		for s := range h.ins {
			if in := h.head(w, s); in != nil && h.silent(w, in) {
				w.pos[s]++
				moved = true
			}
		}
		h.settle(w)
	}
}

// silent takes an input that gives no row into the state of w, and reports whether
// it is one.
func (h *history) silent(w *way, in *input) bool {
	if h.try(w, in) == rejected {
		return true
	}
	if h.feed.one {
		return false
	}
	state := slices.Clone(h.scratch)
	if len(h.rows(state, in)) > 0 {
		return false
	}
	copy(w.state, state)
	w.known = true
	return true
}

// merged makes one stream of all when every input contributes the same and no time
// tells them apart: then their order does not matter.
func (h *history) merged() bool {
	if len(h.ins) < 2 || h.timed && h.a.onChange {
		return len(h.ins) == 1
	}
	first := h.ins[0][0].contribution
	var all []input
	for _, in := range h.ins {
		for i := range in {
			if in[i].contribution != first {
				return false
			}
		}
		all = append(all, in...)
	}
	h.ins = [][]input{all}
	return true
}
