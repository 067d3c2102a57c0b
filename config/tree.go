package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxNodes bounds the file with its aliases resolved: an alias of aliases can
// stand for any number of values.
const maxNodes = 20000

// tree turns the parser's nodes into ours: aliases and merge keys resolved, keys
// checked.
type tree struct {
	*document
	anchors map[string]ast.Node
	count   int
	through []string // aliases being resolved
}

// node never returns nil: what cannot be represented is null, and reported.
func (t *tree) node(n ast.Node, path string, depth int) *node {
	out := &node{kind: nullNode, path: path, pos: position(n)}
	if t.count++; t.count > maxNodes || depth > maxDepth {
		out.broken = true
		if t.count == maxNodes+1 || depth == maxDepth+1 {
			t.add(out.pos, path, "config.too_large", fmt.Sprintf("more than %d values, or %d levels of them, with aliases resolved", maxNodes, maxDepth), "write out what the aliases stand for, or split the pipeline")
			t.count = maxNodes + 2
		}
		return out
	}
	if t.hostPort(out, n) {
		return out
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		t.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		t.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = listNode
		for i, v := range n.Values {
			out.items = append(out.items, t.node(v, element(path, i), depth+1))
		}
	case *ast.AnchorNode:
		t.anchors[name(n.Name)] = n.Value
		return t.node(n.Value, path, depth)
	case *ast.AliasNode:
		return t.alias(out, n, depth)
	case *ast.TagNode:
		out.broken = true
		t.add(out.pos, path, "config.syntax", "the tag "+quote(n.Start.Value)+" is not supported", "remove it; quotes make a value text")
	default:
		t.scalar(out, n)
	}
	return out
}

// hostPort undoes a mistake of the parser: inside braces it takes [host:9092] for
// a list of groups, where YAML wants a space behind the colon of a key.
func (t *tree) hostPort(out *node, n ast.Node) bool {
	m, ok := n.(*ast.MappingNode)
	if !ok || len(m.Values) != 1 || m.GetToken().Type != token.MappingValueType || !strings.HasSuffix(out.path, "]") {
		return false
	}
	key, isText := m.Values[0].Key.(*ast.StringNode)
	colon, value := position(m), position(m.Values[0].Value)
	if !isText || styles[key.Token.Type] != plain || value != (Pos{colon.Line, colon.Column + 1}) {
		return false
	}
	switch m.Values[0].Value.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		out.kind, out.pos, out.text = textNode, position(key), key.Value+":"+m.Values[0].Value.GetToken().Value
		out.source = out.text
		return true
	}
	return false
}

// scalar fills in a leaf.
func (t *tree) scalar(out *node, n ast.Node) {
	switch n := n.(type) {
	case *ast.StringNode:
		out.kind, out.text, out.style = textNode, n.Value, styles[n.Token.Type]
	case *ast.LiteralNode:
		out.kind, out.text, out.style = textNode, n.Value.Value, block
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = numberNode, n.GetToken().Value
	case *ast.BoolNode:
		out.kind, out.text = boolNode, strings.ToLower(n.Token.Value)
	}
	out.source = out.text
}

var styles = map[token.Type]style{token.SingleQuoteType: singleQuoted, token.DoubleQuoteType: doubleQuoted}

func name(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}

// mapping fills in a group of keys. The first of equal keys counts.
func (t *tree) mapping(out *node, values []*ast.MappingValueNode, depth int) {
	out.kind = mapNode
	var merged []ast.Node
	for _, v := range values {
		at := position(v.Key)
		if out.pos.Line == 0 || at.before(out.pos) {
			out.pos = at
		}
		if v.Key.IsMergeKey() {
			merged = append(merged, v.Value)
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			t.add(at, out.path, "config.syntax", "a key that is not a plain word", "write keys as words")
			continue
		}
		path := child(out.path, key)
		if i := out.index(key); i >= 0 {
			t.add(at, path, "config.duplicate_key", fmt.Sprintf("the key %s appears twice, in line %d and in line %d", quote(key), out.entries[i].pos.Line, at.Line), "remove one of the two")
			continue
		}
		value := t.node(v.Value, path, depth+1)
		value.key = at
		if value.kind == nullNode && value.pos.Line == 0 {
			value.pos = at
		}
		out.entries = append(out.entries, entry{key, at, value})
	}
	for _, m := range merged {
		t.merge(out, m, depth)
	}
}

// merge adds the keys of <<: that are not given here.
func (t *tree) merge(out *node, from ast.Node, depth int) {
	n := t.node(from, out.path, depth+1)
	parts := []*node{n}
	if n.kind == listNode {
		parts = n.items
	}
	for _, p := range parts {
		if p.kind != mapNode {
			t.add(position(from), out.path, "config.type", fmt.Sprintf("<< is %s, not a group of keys", p.kind), "merge an alias of a group of keys")
			continue
		}
		for _, e := range p.entries {
			if out.index(e.name) < 0 {
				out.entries = append(out.entries, e)
			}
		}
	}
}

func (n *node) index(key string) int {
	for i := range n.entries {
		if n.entries[i].name == key {
			return i
		}
	}
	return -1
}

// keyText returns a key's text: numbers are keys too, for partitions.
func keyText(k ast.MapKeyNode) (string, bool) {
	switch n := k.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// alias resolves an alias where it stands, with the places of what it stands for.
func (t *tree) alias(out *node, n *ast.AliasNode, depth int) *node {
	to := name(n.Value)
	target, ok := t.anchors[to]
	out.broken = true
	if !ok {
		t.add(out.pos, out.path, "config.alias", "the alias *"+to+" stands for nothing above it", "define it with &"+to)
		return out
	}
	for _, open := range t.through {
		if open == to {
			t.add(out.pos, out.path, "config.alias", "the alias *"+to+" contains itself", "write it out")
			return out
		}
	}
	t.through = append(t.through, to)
	defer func() { t.through = t.through[:len(t.through)-1] }()
	return t.node(target, out.path, depth+1)
}

// quote puts a value into a message: shortened, with control characters escaped.
func quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
