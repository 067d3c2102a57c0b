package keyed

// listBits makes parts of a list 64 Ki addresses: a list that grows copies
// nothing, so that no append is ever slow.
const listBits = 16

// list is the dirty list of an epoch: addresses in the order in which entries
// were first changed in it, 0 for one that left memory.
type list struct {
	parts []*[1 << listBits]uint32
	n     int
}

func (l *list) push(addr uint32) (pos uint32) {
	if l.n>>listBits == len(l.parts) {
		l.parts = append(l.parts, new([1 << listBits]uint32))
	}
	pos = uint32(l.n)
	l.parts[pos>>listBits][pos&(1<<listBits-1)] = addr
	l.n++
	return pos
}

func (l *list) get(pos uint32) uint32 { return l.parts[pos>>listBits][pos&(1<<listBits-1)] }

func (l *list) set(pos, addr uint32) { l.parts[pos>>listBits][pos&(1<<listBits-1)] = addr }

// clear empties the list. It keeps its parts, up to a million addresses, for
// the next epochs, which are likely to be as large.
func (l *list) clear() {
	l.parts = l.parts[:min(len(l.parts), 16)]
	l.n = 0
}
