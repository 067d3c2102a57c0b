package config

import (
	"strconv"
	"strings"
)

// kind is what a node of the file is.
type kind uint8

const (
	textNode   kind = iota // text, quoted or not
	numberNode             // a number, true or false: text says how it was written
	boolNode
	nullNode // nothing
	listNode
	mapNode
)

// String returns what messages call the kind.
func (k kind) String() string {
	return [...]string{"text", "a number", "true or false", "empty", "a list", "a group of keys"}[k]
}

// style is how a scalar is written.
type style uint8

const (
	plain style = iota
	singleQuoted
	doubleQuoted
	block
)

// node is a value of the file with its place: what the parser made of the text,
// with aliases resolved and variables put in.
type node struct {
	kind  kind
	path  string
	key   Pos // of its key; of its value in a list
	pos   Pos // of its value
	style style
	// text is a scalar's value, source the one before variables were put in.
	text, source string
	// inserted says that a variable was put in, secret that the value came out of
	// a file.
	inserted, secret bool
	// broken says that the value is unusable and has been reported.
	broken  bool
	items   []*node
	entries []entry
}

// entry is one key of a mapping.
type entry struct {
	name  string
	pos   Pos
	value *node
}

// get returns the value of a key, nil when there is none.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.entries {
		if n.entries[i].name == key {
			return n.entries[i].value
		}
	}
	return nil
}

// find follows a relative path such as start.offsets or topics[1] as far as it
// goes. Its end is the node that is nearest to what was asked for.
func (n *node) find(path string) *node {
	full := join(n.path, path)
	for next := n; next != nil; {
		n, next = next, nil
		for i := range n.entries {
			if leads(n.entries[i].value.path, full) {
				next = n.entries[i].value
			}
		}
		for _, item := range n.items {
			if leads(item.path, full) {
				next = item
			}
		}
	}
	return n
}

// leads reports whether full is the path of a node or lies below it.
func leads(path, full string) bool {
	rest, ok := strings.CutPrefix(full, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// join puts a relative path behind another one.
func join(path, rel string) string {
	if rel == "" || rel[0] == '[' {
		return path + rel
	}
	return child(path, rel)
}

// at returns the place to show for the node: its key, or its value in a list.
func (n *node) at() Pos {
	if n.key != (Pos{}) {
		return n.key
	}
	return n.pos
}

// child is the path of a key below another one.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// element is the path of an element of a list.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
