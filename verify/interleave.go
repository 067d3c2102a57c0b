package verify

// Verdict is what a search for an order found out.
type Verdict uint8

// The verdicts. GaveUp says that there were too many ways to try.
const (
	Explained Verdict = iota
	Refuted
	GaveUp
)

// Interleaved looks for an interleaving of ins, each kept in its order, that is out.
// All of ins must be used up. When there is none, at is the first element of out
// that no interleaving reaches, or len(out) when only the end does not fit. limit is
// the number of ways followed at the same time.
func Interleaved(out []uint64, ins [][]uint64, limit int) (v Verdict, at int) {
	l := words(ins)
	front := starts(l, len(ins))
	seen := map[string]bool{}
	for i, want := range out {
		var next []spot
		clear(seen)
		for n := range front {
			p := &front[n]
			for s, in := range ins {
				if p.may(l, s) && in[p.pos[s]] == want {
					next = addSpots(next, seen, l, p.take(l, s))
				}
			}
		}
		switch {
		case len(next) == 0:
			return Refuted, i
		case len(next) > limit:
			return GaveUp, i
		}
		front = next
	}
	for s, in := range ins {
		if int(front[0].pos[s]) < len(in) { // all of front have gone the same number of steps
			return Refuted, len(out)
		}
	}
	return Explained, 0
}

// addSpots adds places that are not there yet.
func addSpots(list []spot, seen map[string]bool, l lanes, more []spot) []spot {
	for i := range more {
		k := string(more[i].appendKey(l, nil))
		if !seen[k] {
			seen[k] = true
			list = append(list, more[i])
		}
	}
	return list
}

// words are streams of numbers.
type words [][]uint64

func (w words) length(s int) int         { return len(w[s]) }
func (w words) same(s, i, t, j int) bool { return w[s][i] == w[t][j] }
