package config

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"etl/expr"
	"etl/internal/invariant"
)

// decoder fills structs from nodes and reports everything that does not fit. It is
// our own because all problems must come at once, each with its place.
type decoder struct{ *document }

func (d *decoder) bad(n *node, code, message, fix string) {
	d.add(n.pos, n.path, "config."+code, message, fix)
}

// into decodes a group of keys into the struct v points to. skip are keys that
// somebody else decodes.
func (d *decoder) into(n *node, v any, skip ...string) {
	d.group(n, reflect.ValueOf(v).Elem(), skip)
}

// group decodes the keys of a mapping; n may be nil for one that is absent.
func (d *decoder) group(n *node, v reflect.Value, skip []string) {
	g := groupOf(v.Type())
	if n != nil && n.kind != mapNode {
		d.groupWord(n, v, g)
		return
	}
	d.fields(n, v)
	if n != nil {
		d.unknown(n, skip, g)
	}
}

// fields decodes the keys that a struct has, and leaves the others alone.
func (d *decoder) fields(n *node, v reflect.Value) {
	for _, f := range groupOf(v.Type()).fields {
		switch value := n.get(f.name); {
		case value != nil:
			d.value(value, v.Field(f.index), f)
		case f.required && n != nil:
			d.add(n.at(), child(n.path, f.name), "config.missing_key", fmt.Sprintf("the key %q is missing", f.name), f.name+": "+f.doc)
		default:
			d.absent(v.Field(f.index), f)
		}
	}
}

// groupWord decodes a group that is written as one word.
func (d *decoder) groupWord(n *node, v reflect.Value, g *group) {
	for _, f := range g.fields {
		d.absent(v.Field(f.index), f)
	}
	f, ok := g.shorthand()
	if !ok || n.kind == nullNode {
		d.wrongKind(n, v.Type(), field{})
		return
	}
	d.value(n, v.Field(f.index), f)
}

// absent puts the default in.
func (d *decoder) absent(v reflect.Value, f field) {
	switch {
	case f.def != "":
		quiet := &decoder{&document{}}
		quiet.value(&node{kind: textNode, text: f.def, inserted: true}, v, f)
		invariant.Check(len(quiet.problems) == 0, "default %q of %s: %v", f.def, f.name, quiet.problems)
	case v.Kind() == reflect.Struct && v.Type() != secretType:
		d.group(nil, v, nil)
	}
}

// unknown reports keys that none of the groups has.
func (d *decoder) unknown(n *node, skip []string, groups ...*group) {
	var known []string
	for _, g := range groups {
		known = append(known, g.names()...)
	}
	known = append(known, skip...)
	for _, e := range n.entries {
		if slices.Contains(known, e.name) {
			continue
		}
		path := child(n.path, e.name)
		if slices.ContainsFunc(groups, func(g *group) bool { return slices.Contains(g.reserved, e.name) }) {
			d.add(e.pos, path, "config.not_yet", fmt.Sprintf("the key %q is reserved for a later version", e.name), "remove it")
			continue
		}
		fix := "the keys here are " + strings.Join(known, ", ")
		if near := d.misspelt(n, expr.Near(e.name, known)); len(near) > 0 {
			fix = meant(near, groups)
		}
		d.add(e.pos, path, "config.unknown_key", "unknown key "+quote(e.name), fix)
	}
}

// misspelt returns which of the keys near to an unknown one it may stand for. Those that
// are not there are in doubt from now on; that one of them is missing is the same mistake,
// and not reported twice.
func (d *decoder) misspelt(n *node, near []string) []string {
	for _, name := range near {
		if n.get(name) == nil {
			d.doubted = append(d.doubted, child(n.path, name))
		}
	}
	for _, name := range near {
		if d.withdraw("config.missing_key", child(n.path, name)) {
			return []string{name}
		}
	}
	return near
}

// meant says which key an unknown one may be.
func meant(near []string, groups []*group) string {
	for _, g := range groups {
		if f, ok := g.get(near[0]); ok && len(near) == 1 {
			return fmt.Sprintf("did you mean %q (%s)?", near[0], says(f.typ, f))
		}
	}
	return "did you mean " + oneOf(near) + "?"
}

// oneOf lists names as "a", "b" or "c".
func oneOf(names []string) string {
	var b strings.Builder
	for i, n := range names {
		switch {
		case i > 0 && i == len(names)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(n))
	}
	return b.String()
}

// value decodes one value.
func (d *decoder) value(n *node, v reflect.Value, f field) {
	t := v.Type()
	if n.broken {
		return
	}
	if t.Kind() == reflect.Pointer {
		v.Set(reflect.New(t.Elem()))
		d.value(n, v.Elem(), f)
		return
	}
	if elem, ok := isMap(t); ok {
		d.mapping(n, v, elem, f)
		return
	}
	switch {
	case n.kind == nullNode:
		d.wrongKind(n, t, f)
	case t == secretType || t == exprType || t == durationType || t == sizeType:
		d.leaf(n, v, f)
	case t.Kind() == reflect.Struct:
		d.group(n, v, nil)
	case t.Kind() == reflect.Slice:
		d.list(n, v, f)
	default:
		d.leaf(n, v, f)
	}
}

func (d *decoder) mapping(n *node, v reflect.Value, elem reflect.Type, f field) {
	if n.kind != mapNode {
		d.wrongKind(n, v.Type(), f)
		return
	}
	d.notEmpty(n, f)
	for _, e := range n.entries {
		pair := reflect.New(v.Type().Elem()).Elem()
		pair.Field(0).SetString(e.name)
		d.value(e.value, pair.Field(1), field{typ: elem, words: f.words, min: f.min, max: f.max})
		v.Set(reflect.Append(v, pair))
	}
}

func (d *decoder) list(n *node, v reflect.Value, f field) {
	items := n.items
	if n.kind != listNode {
		if !f.one && !(f.comma && n.inserted) {
			d.wrongKind(n, v.Type(), f)
			return
		}
		items = []*node{n}
	}
	d.notEmpty(n, f)
	for _, item := range items {
		for _, part := range d.split(item, f) {
			elem := reflect.New(v.Type().Elem()).Elem()
			d.value(part, elem, field{words: f.words, min: f.min, max: f.max})
			v.Set(reflect.Append(v, elem))
		}
	}
}

// notEmpty demands an element of what is required.
func (d *decoder) notEmpty(n *node, f field) {
	if f.required && n.kind != textNode && len(n.items) == 0 && len(n.entries) == 0 {
		d.bad(n, "no_value", "nothing is listed", f.name+": "+f.doc)
	}
}

// split makes several elements of one that a variable put commas into.
func (d *decoder) split(n *node, f field) []*node {
	if !f.comma || !n.inserted {
		return []*node{n}
	}
	var out []*node
	for _, part := range strings.Split(n.text, ",") {
		c := *n
		c.text = strings.TrimSpace(part)
		out = append(out, &c)
	}
	return out
}

// wrongKind reports a value that is of another kind altogether.
func (d *decoder) wrongKind(n *node, t reflect.Type, f field) {
	want := says(t, f)
	switch {
	case n.kind == nullNode && strings.HasSuffix(want, "a group of keys"):
		d.bad(n, "no_value", "the key has no value", "write {} for a group with its defaults, or remove the key")
	case n.kind == nullNode:
		d.bad(n, "no_value", "the key has no value", "write "+want+", or remove the key")
	case n.kind == listNode || n.kind == mapNode:
		d.bad(n, "type", fmt.Sprintf("%s, not %s", n.kind, want), "write "+want)
	case strings.HasPrefix(want, "a list"):
		fix := "put it in brackets: [...]"
		if n.kind == textNode && !n.inserted && len(n.text) < 40 {
			fix = "put it in brackets: [" + n.text + "]"
		}
		d.bad(n, "type", fmt.Sprintf("%s is %s, not %s", d.show(n, t), n.kind, want), fix)
	default:
		d.bad(n, "type", fmt.Sprintf("%s is %s, not %s", d.show(n, t), n.kind, want), "write "+want)
	}
}

// show quotes a value for a message, unless it may be a secret: one that runs over
// several lines may have swallowed what stood behind a key that is gone.
func (d *decoder) show(n *node, t reflect.Type) string {
	if n.secret || t == secretType || secretKey(n.path[strings.LastIndexByte(n.path, '.')+1:]) {
		return "the value"
	}
	if n.kind == textNode {
		if !n.inserted && n.style == plain && n.pos.Line > 0 && n.pos.Line <= len(d.lines) && !strings.Contains(d.lines[n.pos.Line-1], n.text) {
			return "the value"
		}
		return quote(n.text)
	}
	return n.text
}

// leaf decodes a scalar.
func (d *decoder) leaf(n *node, v reflect.Value, f field) {
	t := v.Type()
	if n.kind == listNode || n.kind == mapNode {
		d.wrongKind(n, t, f)
		return
	}
	if n.secret && t != secretType {
		d.bad(n, "secret_misplaced", "a secret file in a value that is shown in plans and messages", "use an environment variable: ${NAME}")
		return
	}
	switch {
	case t == durationType:
		d.unit(n, v, func(s string) (int64, error) { x, err := ParseDuration(s); return int64(x), err }, "10s, 500ms, 5m, 1h or 7d")
	case t == sizeType:
		d.unit(n, v, func(s string) (int64, error) { x, err := ParseSize(s); return int64(x), err }, "64MiB, 10MB or 512B")
	case t == secretType:
		if d.text(n, t, f) {
			v.Set(reflect.ValueOf(NewSecret(n.text)))
			d.literal(n)
		}
	case t == exprType:
		v.SetString(n.text)
	case t.Kind() == reflect.String:
		if d.text(n, t, f) && d.word(n, f) {
			v.SetString(n.text)
		}
	case t.Kind() == reflect.Bool:
		d.boolean(n, v, f)
	default:
		d.number(n, v, f)
	}
}

// literal warns of a secret that everybody who can read the file knows.
func (d *decoder) literal(n *node) {
	if !n.inserted && n.text != "" && !passwordless(n.text) {
		d.put(Warning, n.pos, n.path, "config.secret_literal", "a secret is written in the file", "use ${file:/path/to/secret} or ${NAME}")
	}
}

// passwordless reports whether a secret is the address of a server and holds none.
func passwordless(s string) bool {
	u, err := url.Parse(s)
	if scheme, rest, ok := strings.Cut(s, "://"); err != nil && ok && strings.HasPrefix(scheme, "postgres") {
		return !strings.Contains(rest[:strings.LastIndexByte("@"+rest, '@')], ":") && !strings.Contains(strings.ToLower(rest), "pass")
	}
	if err != nil || u.Scheme == "" || u.Host == "" {
		return false
	}
	_, has := u.User.Password()
	return !has && !strings.Contains(strings.ToLower(u.RawQuery), "pass") && !strings.Contains(u.RawQuery, "secret")
}

// text demands that a scalar is text: 1.10 as a name would lose its zero in other
// readers of the file.
func (d *decoder) text(n *node, t reflect.Type, f field) bool {
	if n.kind == textNode {
		return true
	}
	d.bad(n, "type", fmt.Sprintf("%s is %s, not %s", d.show(n, t), n.kind, says(t, f)), "put it in quotes")
	return false
}

// word demands one of the words of the field, if it has any.
func (d *decoder) word(n *node, f field) bool {
	if len(f.words) == 0 || slices.Contains(f.words, n.text) {
		return true
	}
	fix := "write " + f.explained()
	if near := expr.Near(n.text, f.words); len(near) > 0 {
		fix = "did you mean " + oneOf(near) + "?"
	} else if meant := f.meant(n.text); meant != "" {
		fix = "did you mean " + quote(meant) + "? write " + f.explained()
	}
	d.bad(n, "word", fmt.Sprintf("%s is not one of %s", d.show(n, nil), strings.Join(f.words, ", ")), fix)
	return false
}

func (d *decoder) unit(n *node, v reflect.Value, parse func(string) (int64, error), forms string) {
	x, err := parse(n.text)
	if err != nil || n.kind == boolNode {
		code := "type"
		if err != nil && strings.HasSuffix(err.Error(), "has no unit") {
			code = "no_unit"
		}
		d.bad(n, code, strings.ReplaceAll(fmt.Sprint(err), `"`, ""), "write "+forms)
		return
	}
	v.SetInt(x)
}

func (d *decoder) boolean(n *node, v reflect.Value, f field) {
	if n.kind == boolNode || n.inserted && (n.text == "true" || n.text == "false") {
		v.SetBool(n.text == "true")
		return
	}
	d.wrongKind(n, v.Type(), f)
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func (d *decoder) number(n *node, v reflect.Value, f field) {
	text := strings.TrimSpace(n.text)
	x, err := strconv.ParseInt(text, 10, 64)
	switch {
	case n.kind != numberNode && !n.inserted:
		d.wrongKind(n, v.Type(), f)
	case !wholeNumber.MatchString(text):
		d.bad(n, "type", d.show(n, v.Type())+" is not a whole number", "write digits only")
	case err != nil || v.OverflowInt(x):
		d.bad(n, "range", text+" is too large", "write a smaller number")
	case f.min != nil && x < *f.min:
		d.bad(n, "range", fmt.Sprintf("%d is less than %d", x, *f.min), fmt.Sprintf("write %d or more", *f.min))
	case f.max != nil && x > *f.max:
		d.bad(n, "range", fmt.Sprintf("%d is more than %d", x, *f.max), fmt.Sprintf("write %d or less", *f.max))
	default:
		v.SetInt(x)
	}
}
