package verify

import "encoding/binary"

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
	front := [][]int32{make([]int32, len(ins))}
	seen := map[string]bool{}
	for i, want := range out {
		var next [][]int32
		clear(seen)
		for _, pos := range front {
			for s, in := range ins {
				if int(pos[s]) < len(in) && in[pos[s]] == want {
					next = addPosition(next, seen, pos, s, len(front) > 1)
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
		if int(front[0][s]) < len(in) { // all of front have gone the same number of steps
			return Refuted, len(out)
		}
	}
	return Explained, 0
}

// addPosition adds pos with one step in stream s, unless it is there already; when
// only one way is followed it cannot be.
func addPosition(list [][]int32, seen map[string]bool, pos []int32, s int, many bool) [][]int32 {
	p := append([]int32(nil), pos...)
	p[s]++
	if many {
		k := positionKey(p)
		if seen[k] {
			return list
		}
		seen[k] = true
	}
	return append(list, p)
}

func positionKey(pos []int32) string {
	b := make([]byte, 0, 3*len(pos))
	for _, n := range pos {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return string(b)
}
