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
		for _, w := range h.settled(front) {
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
		front = h.unique(next)
	}
	return o
}

// settled takes what changes nothing on all ways.
func (h *history) settled(front []*way) (out []*way) {
	for _, w := range front {
		out = append(out, h.settle(w)...)
	}
	return out
}

// unique drops ways that have come to the same point.
func (h *history) unique(ways []*way) []*way {
	if len(ways) < 2 {
		return ways
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(ways, func(w *way) bool {
		k := h.key(w)
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
		if !w.may(h, s) {
			continue
		}
		in := h.head(w, s)
		if h.try(w, in) == rejected {
			next = append(next, h.after(w, s, nil)...)
			continue
		}
		if !h.timeFits(w, in) {
			continue
		}
		rows := slices.Clone(h.rows(h.scratch, in))
		for _, v := range h.after(w, s, h.scratch) {
			next = append(next, h.matches(v, rows, in)...)
		}
	}
	return next
}

// after returns w behind the next input of a stream; state is nil when that is
// rejected.
func (h *history) after(w *way, s int, state []cell) []*way {
	ways := w.at(w.take(h, s))
	for _, v := range ways {
		if state != nil {
			copy(v.state, state)
			v.known, v.dirty = true, true
		}
	}
	return ways
}

// checkpointSteps: a changed key can be written now, and if its row is there it was:
// whatever else could follow can follow from there, too. Otherwise one more input
// comes before the checkpoint.
func (h *history) checkpointSteps(w *way) []*way {
	if w.dirty {
		if rows := h.rows(w.state, nil); len(rows) > 0 {
			if found := h.matches(w.clone(), rows, nil); len(found) > 0 {
				for _, v := range found {
					v.dirty = false
				}
				return found
			}
		}
	}
	var next []*way
	for s := range h.ins {
		if !w.may(h, s) {
			continue
		}
		if h.try(w, h.head(w, s)) == rejected {
			next = append(next, h.after(w, s, nil)...)
		} else {
			next = append(next, h.after(w, s, h.scratch)...)
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
		if next := h.settle(w); moved {
			*w = *next[0]
		}
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
