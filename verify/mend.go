package verify

import (
	"fmt"
	"slices"
)

// keyVerdict is what was found out about one key.
type keyVerdict struct {
	findings []found
	// ends are the points up to which the inputs may have been processed.
	ends []*way
	// covered updates without a row are accounted for by rows that were altered.
	covered int64
	gaveUp  bool
	tooMany bool // faults: not all are found
}

type found struct {
	kind Kind
	row  *row
	n    int64
	why  string
}

// mender explains the rows of a key that are not what its inputs give: it finds the
// least that is wrong with the next row, and goes on behind it.
type mender struct {
	*history
	v       keyVerdict
	seen    map[uint64]bool  // rows that were explained, without their time
	noted   []int32          // how far they are in seen, by partition
	skipped map[uint64]int64 // updates whose row was not found so far
	altered int64            // rows that explain nothing and stand for one that is not there
}

// The limits of mending: faults of a key, and how far to look for the next row that
// can be explained.
const (
	mendMost  = 32
	skipDepth = 512
	skipWidth = 256
	againMost = 4096 // inputs of a stream that may have been added twice
)

// judge explains the rows of a key, with at most so many faults.
func (h *history) judge(most int) keyVerdict {
	m := &mender{history: h, seen: map[uint64]bool{}, skipped: map[uint64]int64{}}
	front := h.start()
	for n := 0; ; n++ {
		o := h.follow(front)
		switch {
		case o.gaveUp:
			m.v.gaveUp = true
			return m.v
		case len(o.ends) > 0:
			m.v.ends, m.v.covered = o.ends, m.altered
			return m.v
		case n >= most:
			m.v.tooMany = true
			return m.v
		}
		m.note(o.furthest[0])
		front = m.mend(o.furthest)
	}
}

// note remembers what was explained up to w.
func (m *mender) note(w *way) {
	if m.noted == nil {
		m.noted = make([]int32, len(m.outs))
	}
	for q, out := range m.outs {
		for ; m.noted[q] < w.outPos[q]; m.noted[q]++ {
			m.seen[out[m.noted[q]].hash] = true
		}
	}
}

// mend deals with the next row of ways that all end before it, and returns where to
// go on.
func (m *mender) mend(ways []*way) []*way {
	for _, try := range []func([]*way) []*way{m.late, m.repeated, m.skip, m.again} {
		if next := try(ways); len(next) > 0 {
			return next
		}
	}
	row := m.next(ways[0])
	m.report(Altered, row, 1, "no input of the key gives this row here")
	m.altered++
	return m.pass(ways, row)
}

// next returns the first row that is not explained on a way.
func (m *mender) next(w *way) (first *row) {
	for q, out := range m.outs {
		if at := int(w.outPos[q]); at < len(out) && (first == nil || out[at].offset < first.offset) {
			first = &out[at]
		}
	}
	return first
}

func (m *mender) report(k Kind, r *row, n int64, why string) {
	m.v.findings = append(m.v.findings, found{k, r, n, why})
}

// pass takes a row off the ways on which it is the next of its partition.
func (m *mender) pass(ways []*way, r *row) (next []*way) {
	for _, w := range ways {
		for q, out := range m.outs {
			if at := int(w.outPos[q]); at < len(out) && &out[at] == r {
				w.outPos[q]++
				w.used++
				next = append(next, w)
			}
		}
	}
	return next
}

// late finds a row that was thought to be missing.
func (m *mender) late(ways []*way) []*way {
	for r := range m.heads(ways) {
		if m.skipped[r.hash] > 0 {
			m.skipped[r.hash]--
			m.foundAfterAll()
			m.report(OutOfOrder, r, 1, "the row comes after one that follows from a later state of the key")
			return m.pass(ways, r)
		}
	}
	return nil
}

// foundAfterAll takes back one missing row.
func (m *mender) foundAfterAll() {
	for i := len(m.v.findings) - 1; i >= 0; i-- {
		if f := &m.v.findings[i]; f.kind == Missing && f.n > 0 {
			f.n--
			return
		}
	}
}

// repeated finds a row that was there before.
func (m *mender) repeated(ways []*way) []*way {
	for r := range m.heads(ways) {
		if m.seen[r.hash] {
			m.report(Duplicated, r, 1, "the same update of the key is there already")
			return m.pass(ways, r)
		}
	}
	return nil
}

// heads returns the next rows of the first way, one for each partition.
func (m *mender) heads(ways []*way) map[*row]bool {
	out := map[*row]bool{}
	for q, rows := range m.outs {
		if at := int(ways[0].outPos[q]); at < len(rows) {
			out[&rows[at]] = true
		}
	}
	return out
}

// skip looks for the fewest updates whose rows are missing before the next one.
func (m *mender) skip(ways []*way) []*way {
	if !m.a.onChange {
		return nil
	}
	front := slices.Clone(ways)
	for range skipDepth {
		var next, hit []*way
		for _, w := range front {
			for s := range m.ins {
				ways, rows := m.step(w, s)
				for _, v := range ways {
					if v.skipped != nil && len(rows) > 0 {
						hit = append(hit, m.matches(v.clone(), rows, m.head(w, s))...)
					}
					for _, hash := range rows {
						v.skipped = &skip{hash, v.skipped}
					}
					next = append(next, v)
				}
			}
		}
		if len(hit) > 0 {
			m.without(hit[0])
			return m.unique(hit)
		}
		if front = m.unique(next); len(front) == 0 || len(front) > skipWidth {
			return nil
		}
	}
	return nil
}

// step returns the ways behind the next input of a stream, and the rows that it gives.
func (m *mender) step(w *way, s int) (ways []*way, rows []uint64) {
	if !w.may(m, s) {
		return nil, nil
	}
	in := m.head(w, s)
	if m.try(w, in) == rejected {
		return m.after(w, s, nil), nil
	}
	state := slices.Clone(m.scratch)
	rows = slices.Clone(m.rows(state, in))
	return m.settled(m.after(w, s, state)), rows
}

// without counts the updates that were skipped on a way, and those that altered rows
// stand for as found.
func (m *mender) without(w *way) {
	n := int64(0)
	for s := w.skipped; s != nil; s = s.next {
		n++
		m.skipped[s.hash]++
	}
	covered := min(n, m.altered)
	m.altered -= covered
	m.report(Missing, m.lastRow(w), n-covered, fmt.Sprintf("before this row, updates of the key are missing: %d", n-covered))
}

// lastRow returns the last row that is explained on a way.
func (m *mender) lastRow(w *way) *row {
	l := &row{}
	for q, out := range m.outs {
		if at := int(w.outPos[q]); at > 0 && out[at-1].offset >= l.offset {
			l = &out[at-1]
		}
	}
	return l
}

// again looks for an input that was added twice: the state is ahead of the inputs.
// At-least-once processing does that.
func (m *mender) again(ways []*way) []*way {
	w := ways[0]
	if !m.a.onChange || !w.known {
		return nil
	}
	for r := range m.heads(ways) {
		for id, in := range m.processed(w, r) {
			state := slices.Clone(w.state)
			if changed, ok := m.a.add(state, m.a.contributions[id]); !changed || !ok {
				continue
			}
			if rows := m.rows(state, in); len(rows) == 1 && rows[0] == r.hash {
				m.report(Duplicated, r, 1, "the update counts an input of the key a second time")
				copy(w.state, state)
				return m.pass(ways[:1], r)
			}
		}
	}
	return nil
}

// processed returns inputs behind w that a row can come from once more: one for each
// contribution.
func (m *mender) processed(w *way, r *row) map[uint32]*input {
	out := map[uint32]*input{}
	for s, in := range m.ins {
		done := in[:w.pos[s]]
		for i := range done[max(0, len(done)-againMost):] {
			if at := &done[len(done)-1-i]; m.sameTime(r, at) && out[at.contribution] == nil {
				out[at.contribution] = at
			}
		}
	}
	return out
}
