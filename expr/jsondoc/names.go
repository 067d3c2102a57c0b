package jsondoc

import "sync"

// fewNames is up to how many names of an object are compared one by one.
const fewNames = 32

// names remembers which hashes of names an object has.
type names struct {
	set   uint64
	count int
}

// known reports whether the object n already has the name of node k. It leaves
// objects with many names to repeated.
func (p *parser) known(n, k uint32, seen *names) bool {
	v := &p.nodes[k]
	t := p.src[v.start+1 : v.end-1]
	if v.escaped() {
		t = Unescape(nil, t)
	}
	bit := uint64(1) << (hash(t) & 63)
	if seen.count++; seen.set&bit == 0 {
		seen.set |= bit
		return false
	}
	return seen.count <= fewNames && p.among(n, k, t)
}

// among reports whether a name of object n before node k is t.
func (p *parser) among(n, k uint32, t []byte) bool {
	for o := n + 1; o < k; o = p.nodes[o].next {
		if string(p.name(o)) == string(t) {
			return true
		}
	}
	return false
}

// hash spreads names over 64 values; equal names are equal, that is all that
// counts.
func hash(t []byte) uint32 {
	if len(t) == 0 {
		return 0
	}
	return uint32(len(t))*5 + uint32(t[0])*31 + uint32(t[len(t)-1])*7 + uint32(t[len(t)/2])
}

// name returns the unescaped name of node k.
func (p *parser) name(k uint32) []byte {
	v := &p.nodes[k]
	t := p.src[v.start+1 : v.end-1]
	if v.escaped() {
		return Unescape(nil, t)
	}
	return t
}

var nameSets = sync.Pool{New: func() any { return make(map[string]struct{}) }}

// repeated reports whether the object n, which ends at i, has a name twice, and
// fails if so.
func (p *parser) repeated(n uint32, i int) bool {
	set := nameSets.Get().(map[string]struct{})
	defer nameSets.Put(set)
	defer clear(set)
	for k := n + 1; k < uint32(len(p.nodes)); k = p.nodes[k].next {
		t := p.name(k)
		if _, ok := set[string(t)]; ok {
			p.fail(CodeDuplicate, int(p.nodes[k].start))
			return true
		}
		set[string(t)] = struct{}{}
	}
	return false
}
