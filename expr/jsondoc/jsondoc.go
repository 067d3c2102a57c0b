package jsondoc

import "unsafe"

// MaxDepth is the number of arrays and objects that may lie in one another.
const MaxDepth = 100

// Mode says how much is checked; see the package comment.
type Mode uint8

const (
	// Strict is the full list of the package comment.
	Strict Mode = iota
	// Lenient is the grammar and the depth.
	Lenient
)

// Kind is the kind of a value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	True
	False
	Number
	String
	Array
	Object
	name // a member's name, in front of its value
)

// Node is a value of a document. The root is Node 0.
type Node uint32

// node is where a value lies: its text is src[start:end]. A container is followed
// by its elements, an object's as name, value, name, value. next is the node
// behind the whole value; of a name, the next name of the object. (Four fields: the
// compiler writes such a struct at once, and one of five by way of the stack.)
type node struct {
	start, end, next uint32
	kind             Kind // with withEscapes
}

// withEscapes marks strings and names that hold escapes.
const withEscapes Kind = 0x80

func (v *node) escaped() bool { return v.kind&withEscapes != 0 }

// Doc is a parsed document. The zero value is ready for Parse.
type Doc struct {
	src   []byte
	nodes []node
}

// Holds reports whether d was parsed from this very slice.
func (d *Doc) Holds(src []byte) bool {
	return len(d.src) == len(src) && unsafe.SliceData(d.src) == unsafe.SliceData(src)
}

// Size returns the bytes that d takes, the text not counted.
func (d *Doc) Size() int { return cap(d.nodes) * int(unsafe.Sizeof(node{})) }

// Kind returns the kind of n.
func (d *Doc) Kind(n Node) Kind { return d.nodes[n].kind &^ withEscapes }

// Raw returns the text of n as it stands in the document, strings with their
// quotes.
func (d *Doc) Raw(n Node) []byte {
	v := &d.nodes[n]
	return d.src[v.start:v.end]
}

// Text returns what stands between the quotes of a string or name, and whether it
// holds escapes and so has to go through [Unescape].
func (d *Doc) Text(n Node) (text []byte, escaped bool) {
	v := &d.nodes[n]
	return d.src[v.start+1 : v.end-1], v.escaped()
}

// Field returns the value of an object's member; false when n is no object or has
// no such member.
func (d *Doc) Field(n Node, field string) (Node, bool) {
	o := &d.nodes[n]
	if o.kind != Object {
		return 0, false
	}
	for k := uint32(n) + 1; k < o.next; k = d.nodes[k].next {
		m := &d.nodes[k]
		if m.escaped() {
			if d.nameIs(m, field) {
				return Node(k + 1), true
			}
		} else if int(m.end-m.start) == len(field)+2 && string(d.src[m.start+1:m.end-1]) == field {
			return Node(k + 1), true
		}
	}
	return 0, false
}

func (d *Doc) nameIs(m *node, field string) bool {
	return string(Unescape(nil, d.src[m.start+1:m.end-1])) == field
}

// Elem returns element i of an array, counted from the end when i is negative;
// false when n is no array or has no such element.
func (d *Doc) Elem(n Node, i int) (Node, bool) {
	if d.nodes[n].kind != Array {
		return 0, false
	}
	if i < 0 {
		i += d.Len(n)
	}
	at, ok := d.First(n)
	for ; ok && i > 0; i-- {
		at, ok = d.Next(n, at)
	}
	return at, ok && i == 0
}

// Len returns the number of elements of an array or members of an object.
func (d *Doc) Len(n Node) (count int) {
	for at, ok := d.First(n); ok; at, ok = d.Next(n, at) {
		count++
	}
	return count
}

// First returns the first element of an array, or the value of the first member
// of an object.
func (d *Doc) First(n Node) (Node, bool) {
	v := &d.nodes[n]
	at := uint32(n) + 1
	if v.kind == Object {
		at++
	}
	return Node(at), (v.kind == Array || v.kind == Object) && at < v.next
}

// Next returns what follows at in the container n.
func (d *Doc) Next(n, at Node) (Node, bool) {
	next := d.nodes[at].next
	if d.nodes[n].kind == Object {
		next++
	}
	return Node(next), next < d.nodes[n].next
}

// Name returns the name of the member whose value is at.
func (d *Doc) Name(at Node) Node { return at - 1 }
