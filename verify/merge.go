package verify

import (
	"slices"

	"etl/expr/decimal"
	"etl/expr/jsondoc"
)

// A row that is written at a checkpoint shows the sum of what went in before it, in
// several streams: which of their inputs those were is not to be seen, and there are
// too many ways to follow them all. But results can be merged: what two streams give
// together follows from what each gives. So the ways to come to a row are worked out
// stream by stream, and of all that lead to the same results one is kept: the one that
// takes the earliest inputs. That finds one place in the streams for each row if there
// is any; one after the other they make a chain, or the key stays undecided.

// The limits of merging.
const (
	mergeMost = 50_000    // results at the same time
	mergeWork = 1_000_000 // steps for one key
)

// merger explains the rows of one key written at checkpoints.
type merger struct {
	*history
	list     []row
	targets  [][]shown // of each row
	positive []bool    // results that only grow
	work     int
	stuck    bool // a limit was met: what was not found may exist
}

// shown is what a row shows of one result.
type shown struct {
	known bool
	cell  cell
}

// newMerger reads the results off rows of h, which lie in one partition; nil when that
// cannot be done.
func newMerger(h *history, k *keyedRows, list []row) *merger {
	if !h.feed.one {
		return nil
	}
	m := &merger{history: h, work: mergeWork, list: list}
	for i := range m.list {
		t, ok := k.results(&m.list[i])
		if !ok {
			return nil
		}
		m.targets = append(m.targets, t)
	}
	m.positive = make([]bool, len(h.a.items))
	for i := range h.a.items {
		m.positive[i] = h.a.items[i].op == "count" || h.a.items[i].op == "sum" && m.grows(i)
	}
	return m
}

// grows reports whether no input takes away from a sum.
func (m *merger) grows(i int) bool {
	for _, in := range m.ins {
		for j := range in {
			if p := m.a.contributions[in[j].contribution][i]; p.tag == partNumber && p.num.Sign() < 0 {
				return false
			}
		}
	}
	return true
}

// results reads what a row shows of each result.
func (k *keyedRows) results(r *row) ([]shown, bool) {
	out := make([]shown, len(k.agg.items))
	value := *k.values.at(r.value)
	var doc jsondoc.Doc
	if doc.Parse(value, jsondoc.Lenient) != nil || doc.Kind(0) != jsondoc.Object {
		return nil, false
	}
	for i := range out {
		name := k.feed.shown[len(k.agg.keys)+i]
		if name == "" {
			continue
		}
		n, ok := doc.Field(0, name)
		if !ok {
			return nil, false
		}
		out[i].known = true
		switch raw := doc.Raw(n); doc.Kind(n) {
		case jsondoc.Number:
			if out[i].cell.num, ok = decimal.Parse(raw); !ok {
				return nil, false
			}
			out[i].cell.set = true
		case jsondoc.String:
			out[i].cell = cell{set: true, isText: true, text: string(jsondoc.Unescape(nil, raw[1:len(raw)-1]))}
		case jsondoc.Null:
		default:
			return nil, false
		}
	}
	return out, true
}

// over reports whether a state can no longer come to a target.
func (m *merger) over(state []cell, target []shown) bool {
	for i := range state {
		if t := &target[i]; t.known && m.overOne(i, &state[i], &t.cell) {
			return true
		}
	}
	return false
}

func (m *merger) overOne(i int, c, t *cell) bool {
	it := &m.a.items[i]
	switch {
	case it.op == "count" || it.op == "sum":
		return m.positive[i] && decimal.Cmp(c.num, t.num) > 0
	case !c.set:
		return false
	case !t.set || c.isText != t.isText:
		return true
	}
	return it.better(t, &part{num: c.num, text: c.text}) && !equalCells(c, t)
}

func equalCells(a, b *cell) bool {
	if a.isText || b.isText {
		return a.isText == b.isText && a.text == b.text
	}
	return decimal.Cmp(a.num, b.num) == 0
}

// partial is a result of some streams, with the place in them that gives it.
type partial struct {
	state []cell
	pos   []int32
	cost  int64 // the sum of the times of what was taken
	moved bool  // something that always shows was taken
}

// reach returns the place behind from where the results are those of row n; nil when
// there is none, or when m is stuck. A row like the one before needs an input that
// always shows.
func (m *merger) reach(from []int32, n int) []int32 {
	return m.search(from, n, func(p *partial) bool {
		return (p.moved || n == 0 || m.list[n].hash != m.list[n-1].hash) && !slices.Equal(p.pos, from)
	})
}

// possible reports whether any place at or behind from gives row n, or that is not
// known.
func (m *merger) possible(from []int32, n int) bool {
	return m.search(from, n, func(*partial) bool { return true }) != nil || m.stuck
}

func (m *merger) search(from []int32, n int, fits func(*partial) bool) []int32 {
	first := partial{state: m.stateAfter(from), pos: slices.Clone(from)}
	if m.over(first.state, m.targets[n]) {
		return nil
	}
	front := []partial{first}
	for s := range m.ins {
		front = m.extend(front, s, m.targets[n])
		if front == nil {
			return nil
		}
	}
	var best *partial
	for i := range front {
		if p := &front[i]; fits(p) && (best == nil || p.cost < best.cost) && m.is(p.state, n) {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	return best.pos
}

func (m *merger) is(state []cell, n int) bool {
	for i := range state {
		if t := &m.targets[n][i]; t.known && !equalCells(&state[i], &t.cell) {
			return false
		}
	}
	rows := m.rows(state, nil)
	return len(rows) == 1 && rows[0] == m.list[n].hash
}

// extend merges the inputs of one more stream into all partial results.
func (m *merger) extend(front []partial, s int, target []shown) []partial {
	known := map[string]int{}
	var next []partial
	var key []byte
	for i := range front {
		p := front[i]
		p.state, p.pos = slices.Clone(p.state), slices.Clone(p.pos)
		for {
			if m.work--; m.work < 0 || len(next) > mergeMost {
				m.stuck = true
				return nil
			}
			key = appendState(key[:0], p.state, p.moved)
			if at, ok := known[string(key)]; !ok {
				known[string(key)] = len(next)
				next = append(next, partial{slices.Clone(p.state), slices.Clone(p.pos), p.cost, p.moved})
			} else if p.cost < next[at].cost {
				next[at].cost = p.cost
				copy(next[at].pos, p.pos)
			}
			if int(p.pos[s]) == len(m.ins[s]) {
				break
			}
			in := &m.ins[s][p.pos[s]]
			c := m.a.contributions[in.contribution]
			if _, ok := m.a.add(p.state, c); !ok {
				m.stuck = true // what is rejected depends on the order
				return nil
			}
			p.pos[s]++
			p.cost += in.ts
			p.moved = p.moved || m.a.always(c)
			if m.over(p.state, target) {
				break
			}
		}
	}
	return next
}

func appendState(b []byte, state []cell, moved bool) []byte {
	for i := range state {
		if c := &state[i]; c.isText {
			b = appendField(append(b, partText), []byte(c.text))
		} else if c.set {
			b = append(c.num.Append(append(b, partNumber)), 0)
		} else {
			b = append(b, partNone)
		}
	}
	if moved {
		b = append(b, 1)
	}
	return b
}

// stateAfter adds up all inputs before a place.
func (m *merger) stateAfter(pos []int32) []cell {
	state := make([]cell, len(m.a.items))
	for s, n := range pos {
		for i := range n {
			m.a.add(state, m.a.contributions[m.ins[s][i].contribution])
		}
	}
	return state
}

// chain looks for a place for each row, each at or behind the one before.
func (m *merger) chain() (end []int32, ok bool) {
	end, full := make([]int32, len(m.ins)), make([]int32, len(m.ins))
	for s, in := range m.ins {
		full[s] = int32(len(in))
	}
	for n := range m.list {
		next := m.reach(end, n)
		if next == nil {
			return nil, false
		}
		end = next
	}
	if n := len(m.list); n > 0 && m.is(m.stateAfter(full), n-1) {
		return full, true // all places behind the last one that show the same are the same
	}
	return end, true
}
