package jsondoc

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Parse reads src, which d refers to from then on. On failure it returns an
// *Error and d must be parsed again before use.
func (d *Doc) Parse(src []byte, mode Mode) error {
	p := parser{src: src, nodes: d.nodes[:0], strict: mode == Strict}
	ok := p.document()
	d.src, d.nodes = src, p.nodes
	if !ok {
		return p.failure()
	}
	return nil
}

// parser is one pass over a document. Its methods take the position of a token
// and return the position behind it, or -1 after fail.
type parser struct {
	src    []byte
	nodes  []node
	strict bool
	code   string
	at     int
}

func (p *parser) fail(code string, at int) int {
	p.code, p.at = code, at
	return -1
}

// maxSize keeps positions in 32 bits.
const maxSize = 1<<32 - 1

func (p *parser) document() bool {
	if len(p.src) >= maxSize {
		return p.fail(CodeSize, 0) >= 0
	}
	if p.strict && len(p.src) >= 3 && string(p.src[:3]) == "\uFEFF" {
		return p.fail(CodeBOM, 0) >= 0
	}
	i := p.space(0)
	if i == len(p.src) {
		return p.fail(CodeEmpty, i) >= 0
	}
	if i = p.value(i, 0); i < 0 {
		return false
	}
	if i = p.space(i); i != len(p.src) {
		return p.fail(CodeTrailing, i) >= 0
	}
	return true
}

// space skips white space; mostly there is none, and that must be inlined.
func (p *parser) space(i int) int {
	if i < len(p.src) && p.src[i] > ' ' {
		return i
	}
	return p.skip(i)
}

func (p *parser) skip(i int) int {
	for i < len(p.src) && (p.src[i] == ' ' || p.src[i] == '\n' || p.src[i] == '\t' || p.src[i] == '\r') {
		i++
	}
	return i
}

// peek returns the byte at i, 0 behind the end: no token begins with it.
func (p *parser) peek(i int) byte {
	if i < len(p.src) {
		return p.src[i]
	}
	return 0
}

// add adds the node of a scalar in src[i:end].
func (p *parser) add(k Kind, i, end int) int {
	n := len(p.nodes)
	if n == cap(p.nodes) {
		p.nodes = slices.Grow(p.nodes, n+16)
	}
	p.nodes = p.nodes[:n+1]
	p.nodes[n] = node{uint32(i), uint32(end), uint32(n) + 1, k}
	return end
}

// open adds the node of a container that begins at i.
func (p *parser) open(k Kind, i int) uint32 {
	p.nodes = append(p.nodes, node{start: uint32(i), kind: k})
	return uint32(len(p.nodes) - 1)
}

// close ends the container n before position i.
func (p *parser) close(n uint32, i int) int {
	v := &p.nodes[n]
	v.end, v.next = uint32(i), uint32(len(p.nodes))
	return i
}

func (p *parser) value(i, depth int) int {
	switch c := p.peek(i); {
	case c == '"':
		return p.text(String, i)
	case c == '-' || '0' <= c && c <= '9':
		return p.number(i)
	case c == '{':
		return p.object(i, depth+1)
	case c == '[':
		return p.array(i, depth+1)
	case c == 't':
		return p.word(True, i, "true")
	case c == 'f':
		return p.word(False, i, "false")
	case c == 'n':
		return p.word(Null, i, "null")
	}
	return p.fail(CodeSyntax, i)
}

func (p *parser) word(k Kind, i int, w string) int {
	end := i + len(w)
	if end > len(p.src) || string(p.src[i:end]) != w {
		return p.fail(CodeSyntax, i)
	}
	return p.add(k, i, end)
}

func (p *parser) array(i, depth int) int {
	if depth > MaxDepth {
		return p.fail(CodeDepth, i)
	}
	n := p.open(Array, i)
	if i = p.space(i + 1); p.peek(i) == ']' {
		return p.close(n, i+1)
	}
	for {
		if i = p.value(p.space(i), depth); i < 0 {
			return -1
		}
		i = p.space(i)
		switch p.peek(i) {
		case ',':
			i++
		case ']':
			return p.close(n, i+1)
		default:
			return p.fail(CodeSyntax, i)
		}
	}
}

func (p *parser) object(i, depth int) int {
	if depth > MaxDepth {
		return p.fail(CodeDepth, i)
	}
	n := p.open(Object, i)
	if i = p.space(i + 1); p.peek(i) == '}' {
		return p.close(n, i+1)
	}
	for seen := (names{}); ; {
		if i = p.member(p.space(i), depth, n, &seen); i < 0 {
			return -1
		}
		i = p.space(i)
		switch p.peek(i) {
		case ',':
			i++
		case '}':
			if seen.count > fewNames && p.repeated(n, i) {
				return -1
			}
			return p.close(n, i+1)
		default:
			return p.fail(CodeSyntax, i)
		}
	}
}

// member reads a name, the colon and the value of object n.
func (p *parser) member(i, depth int, n uint32, seen *names) int {
	if p.peek(i) != '"' {
		return p.fail(CodeSyntax, i)
	}
	k := uint32(len(p.nodes))
	if i = p.text(name, i); i < 0 {
		return -1
	}
	if p.strict && p.known(n, k, seen) {
		return p.fail(CodeDuplicate, int(p.nodes[k].start))
	}
	if i = p.space(i); p.peek(i) != ':' {
		return p.fail(CodeSyntax, i)
	}
	i = p.value(p.space(i+1), depth)
	p.nodes[k].next = uint32(len(p.nodes))
	return i
}

func (p *parser) number(i int) int {
	start := i
	if p.src[i] == '-' {
		i++
	}
	first := p.peek(i)
	j := p.digits(i)
	if j == i || first == '0' && j > i+1 {
		return p.fail(CodeSyntax, i)
	}
	if p.peek(j) == '.' {
		i = j + 1
		if j = p.digits(i); j == i {
			return p.fail(CodeSyntax, i)
		}
	}
	if c := p.peek(j); c == 'e' || c == 'E' {
		i = j + 1
		if c := p.peek(i); c == '+' || c == '-' {
			i++
		}
		if j = p.digits(i); j == i {
			return p.fail(CodeSyntax, i)
		}
	}
	return p.add(Number, start, j)
}

func (p *parser) digits(i int) int {
	for i < len(p.src) && p.src[i]-'0' <= 9 {
		i++
	}
	return i
}

// text reads a string or name that begins with the quote at i. Nearly all end
// within a few words of plain characters, which is the loop here.
func (p *parser) text(k Kind, i int) int {
	src, j := p.src, i+1
	for ; j+8 <= len(src); j += 8 {
		if stop := special(binary.LittleEndian.Uint64(src[j:])); stop != 0 {
			j += bits.TrailingZeros64(stop) >> 3
			break
		}
	}
	if j < len(src) && src[j] == '"' {
		return p.add(k, i, j+1)
	}
	return p.hardText(k, i, j)
}

// hardText goes on at j, with everything text left to it: escapes, characters
// above ASCII, and the end of the document.
func (p *parser) hardText(k Kind, i, j int) int {
	wide := false
	for ; j < len(p.src); j++ {
		switch c := p.src[j]; {
		case c == '"':
			if wide && p.strict && !utf8.Valid(p.src[i+1:j]) {
				return p.fail(CodeUTF8, i)
			}
			return p.add(k, i, j+1)
		case c == '\\':
			k |= withEscapes
			if j = p.escape(j) - 1; j < 0 {
				return -1
			}
		case c >= utf8.RuneSelf:
			wide = true
		case c < ' ':
			return p.fail(CodeSyntax, j)
		}
	}
	return p.fail(CodeSyntax, len(p.src))
}

const (
	ones = 0x0101010101010101
	tops = 0x80 * ones
)

// special returns a word whose lowest set bit lies in the first byte of w that is
// below space, a quote, a backslash, or above ASCII. A borrow of the subtractions
// may set bits above a true one, never below.
func special(w uint64) uint64 {
	quote, back := w^'"'*ones, w^'\\'*ones
	return ((w-' '*ones)&^w | (quote-ones)&^quote | (back-ones)&^back | w) & tops
}

// escape checks the escape at i.
func (p *parser) escape(i int) int {
	switch p.peek(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
	default:
		return p.fail(CodeSyntax, i)
	}
	r, ok := hex4(p.src[i+2:])
	switch {
	case !ok:
		return p.fail(CodeSyntax, i)
	case !isSurrogate(r) || !p.strict:
		return i + 6
	}
	if _, ok := lowHalf(p.src[i+6:]); !ok || !isHigh(r) {
		return p.fail(CodeSurrogate, i)
	}
	return i + 12
}
