package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	library "github.com/expr-lang/expr"
	"pgregory.net/rapid"

	"etl/stream"
)

// doc is the record of the tests against the library.
const doc = `{"i":7,"j":-3,"z":0,"s":"one two","t":"","b":true,"f":false,"n":null,"li":[3,1,2],"ls":["a","b","a"],"o":{"k":5,"name":"x"}}`

// grammar draws expressions of a kind that both this package and the library
// understand alike: whole numbers, text, lists. Operands have the right kinds, so
// that most evaluate.
type grammar struct {
	t     *rapid.T
	depth int
}

func (g grammar) pick(label string, options ...string) string {
	return rapid.SampledFrom(options).Draw(g.t, label)
}

func (g grammar) deeper() grammar { return grammar{g.t, g.depth + 1} }

// choose draws one of the templates, or of the leaves when deep, and fills in
// expressions: I, S, B, L (ints) and W (words).
func (g grammar) choose(label string, leaves, templates []string) string {
	if g.depth > 3 {
		templates = nil
	}
	t := g.pick(label, append(append([]string{}, leaves...), templates...)...)
	var out strings.Builder
	for _, part := range strings.SplitAfter(t, "$") {
		out.WriteString(strings.TrimSuffix(part, "$"))
	}
	return g.fill(out.String())
}

func (g grammar) fill(t string) string {
	for {
		at := strings.IndexByte(t, '<')
		if at < 0 || at+2 >= len(t) || t[at+2] != '>' {
			return t
		}
		made := map[byte]func() string{'I': g.deeper().int, 'S': g.deeper().text, 'B': g.deeper().cond, 'L': g.deeper().ints, 'W': g.deeper().words}[t[at+1]]()
		t = t[:at] + made + t[at+3:]
	}
}

func (g grammar) int() string {
	return g.choose("int", []string{"0", "1", "2", "12", "this.i", "this.j", "this.z", "this.o.k", "this.li[0]", "this.li[-1]"},
		[]string{"(<I> + <I>)", "(<I> - <I>)", "(<I> * <I>)", "-(<I>)", "len(<S>)", "len(<L>)", "sum(<L>)", "count(<L>, # > <I>)",
			"(<B> ? <I> : <I>)", "indexOf(<S>, <S>)", "abs(<I>)", "max(<I>, <I>)", "min(<I>, <I>)", "(this.n ?? <I>)", "(let x = <I>; x + x)",
			"(findIndex(<L>, # == <I>) ?? 9)", "reduce(<L>, #acc + #, <I>)", "int(<I>)", "len(<W>)"})
}

func (g grammar) text() string {
	return g.choose("text", []string{`""`, `"a"`, `" b "`, `"one two"`, "this.s", "this.t", "this.o.name", "this.ls[1]"},
		[]string{"(<S> + <S>)", "trim(<S>)", "upper(<S>)", "lower(<S>)", "(<B> ? <S> : <S>)", `replace(<S>, "o", "0")`, `join(<W>, "-")`,
			`trimPrefix(<S>, "o")`, `trimSuffix(<S>, "o")`, "string(<I>)", "string(<B>)", "(this.n ?? <S>)"})
}

func (g grammar) cond() string {
	return g.choose("cond", []string{"true", "false", "this.b", "this.f", "this.n == nil", "this.i != nil"},
		[]string{"(<I> < <I>)", "(<I> <= <I>)", "(<I> > <I>)", "(<I> >= <I>)", "(<I> == <I>)", "(<I> != <I>)", "(<S> == <S>)", "(<S> < <S>)",
			"(<B> and <B>)", "(<B> or <B>)", "not (<B>)", "(<S> contains <S>)", "(<S> startsWith <S>)", "(<S> endsWith <S>)", "(<I> in <L>)",
			"(<S> in <W>)", "(<S> not in <W>)", "any(<L>, # > <I>)", "all(<L>, # > <I>)", "none(<L>, # == <I>)", "one(<L>, # == <I>)", `(<S> matches "o+")`,
			"hasPrefix(<S>, <S>)", "hasSuffix(<S>, <S>)"})
}

func (g grammar) ints() string {
	return g.choose("ints", []string{"this.li", "[1, 2, 3]", "[5]", "1..3"},
		[]string{"filter(<L>, # > <I>)", "map(<L>, # + <I>)", "sort(<L>)", `sort(<L>, "desc")`, "reverse(<L>)", "[<I>, <I>]", "uniq(<L>)", "concat(<L>, <L>)",
			"map(<L>, #index)", "map(<W>, len(#))", "sortBy(<L>, -#)", "map(filter(<L>, # > 0), # * 2)"})
}

func (g grammar) words() string {
	return g.choose("words", []string{"this.ls", `["x", "a"]`, `split(this.s, " ")`},
		[]string{`split(<S>, "o")`, "filter(<W>, # != <S>)", "map(<W>, upper(#))", "sort(<W>)", "reverse(<W>)", "[<S>, <S>]", "uniq(<W>)"})
}

// TestAgainstLibrary holds the evaluation against expr-lang's own machine, where
// the two mean the same.
func TestAgainstLibrary(t *testing.T) {
	env := map[string]any{"this": map[string]any{"i": 7, "j": -3, "z": 0, "s": "one two", "t": "", "b": true, "f": false, "n": nil,
		"li": []any{3, 1, 2}, "ls": []any{"a", "b", "a"}, "o": map[string]any{"k": 5, "name": "x"}}}
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		g := grammar{t: t}
		src := []func() string{g.int, g.text, g.cond, g.ints, g.words}[rapid.IntRange(0, 4).Draw(t, "kind")]()
		want, err := library.Eval(src, env)
		if err != nil || len(src) > 4000 {
			return // the library's types are narrower in places, such as []any against []int
		}
		p, err := Compile(src, Env{})
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		got, err := NewEvaluator().AppendJSON(nil, p, &stream.Record{Value: []byte(doc)})
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		wantJSON, _ := json.Marshal(want)
		if !sameJSON(got, wantJSON) {
			t.Fatalf("%s: got %s, the library %s", src, got, wantJSON)
		}
		compared++
	})
	if compared < 30 {
		t.Errorf("only %d expressions compared", compared)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	if x == nil || y == nil { // the library's nil slices
		return bytes.Equal(a, b) || string(a) == "[]" || string(b) == "[]"
	}
	return reflect.DeepEqual(x, y)
}

// TestFoldingChangesNothing evaluates the same expression over constants, which is
// done when compiling, and over a record.
func TestFoldingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := grammar{t: t}.int()
		constant := strings.NewReplacer("this.i", "7", "this.j", "(-3)", "this.z", "0", "this.n ??", "nil ??").Replace(src)
		a, errA := evalOn(src, doc)
		b, errB := evalOn(constant, doc)
		if (errA == nil) != (errB == nil) || errA == nil && a != b {
			t.Fatalf("%s = %s (%v), %s = %s (%v)", src, a, errA, constant, b, errB)
		}
	})
}

func evalOn(src, value string) (string, error) {
	p, err := Compile(src, Env{})
	if err != nil {
		return "", err
	}
	out, err := NewEvaluator().AppendJSON(nil, p, &stream.Record{Value: []byte(value)})
	return string(out), err
}

// TestCanonicalKeys writes one value in many ways and wants one key.
func TestCanonicalKeys(t *testing.T) {
	ev := NewEvaluator()
	p, err := Compile("this", Env{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(t *rapid.T, text string) string {
		k, err := ev.AppendKey(nil, []*Program{p}, &stream.Record{Value: []byte(text)})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return string(k)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		for _, form := range []string{"%d.0", "%de0", "%d.00e+0", "%d.0E+00"} {
			if a, b := key(t, fmt.Sprint(n)), key(t, fmt.Sprintf(form, n)); a != b || a != fmt.Sprint(n) {
				t.Fatalf("%d: keys %s and %s", n, a, b)
			}
		}
		s := rapid.String().Draw(t, "s")
		plain, _ := json.Marshal(s)
		var escaped strings.Builder
		for _, r := range s {
			if r < 0x10000 {
				fmt.Fprintf(&escaped, `\u%04x`, r)
			} else {
				fmt.Fprintf(&escaped, `%c`, r)
			}
		}
		a, b := key(t, string(plain)), key(t, `"`+escaped.String()+`"`)
		var back string
		if a != b || json.Unmarshal([]byte(a), &back) != nil || back != s {
			t.Fatalf("%q: keys %s and %s", s, a, b)
		}
	})
}

func TestKeyErrors(t *testing.T) {
	for src, want := range map[string]string{"this.n": CodeKeyNull, "this.nope": CodeKeyNull, "this.o": CodeKeyKind, "this.li": CodeKeyKind, "this.s": "", "this.b": ""} {
		p, _ := Compile(src, Env{})
		dst := []byte("kept")
		out, err := NewEvaluator().AppendKey(dst, []*Program{p, p}, &stream.Record{Topic: "t", Partition: 1, Offset: 2, Value: []byte(doc)})
		if stream.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
		if err != nil && (string(out) != "kept" || !strings.Contains(err.Error(), "t/1@2")) {
			t.Errorf("%s: left %q, error %v", src, out, err)
		}
	}
}

// TestNestingIsBounded: the parser shares the middle of a chain between two
// comparisons, and the first part of a ?: b between condition and result.
func TestNestingIsBounded(t *testing.T) {
	for _, nest := range [][2]string{{"1 < (", ") < 1"}, {"(", ") ?: 1"}, {"(", ")"}, {"[", "]"}, {"not (", ")"}, {"-(", ")"}} {
		for _, depth := range []int{10, 60, 1500} {
			start := time.Now()
			_, err := Compile(strings.Repeat(nest[0], depth)+"this.a"+strings.Repeat(nest[1], depth), Env{})
			var e *Error
			if errors.As(err, &e) && e.Code != CodeLimit && e.Code != CodeType {
				t.Errorf("%s at depth %d: %v", nest[0], depth, err)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("%s at depth %d took %v", nest[0], depth, took)
			}
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"this.a.b[0] > 1 and it in [1,\"x\"]", "map(this.x, {a: #, b: #index})", "let a = 1; a ?? 2", "((((", "this?.a?.[1]", "1.5e3 ** 2..3", "if a {1} else {2}", "b'x'", "$env", "a | f(1)", "-_.0"} {
		f.Add(s, `{"a":{"b":[2]},"x":[1,null,"s",{"y":1e999}]}`)
	}
	f.Fuzz(func(t *testing.T, src, value string) {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > 3*time.Second {
				t.Fatalf("%q took %v", src, took)
			}
		}()
		typ := of(stream.Any)
		for _, schema := range []*stream.Schema{nil, {Format: stream.Text}, {Format: stream.Raw}, schemas["orders"]} {
			p, err := Compile(src, Env{This: schema, It: &typ})
			if err != nil {
				if e := err.(*Error); e.Code == CodeInternal || e.Line < 1 || e.Column < 1 {
					t.Fatalf("%q: %#v", src, e)
				}
				continue
			}
			rec := &stream.Record{Value: []byte(value)}
			out, err := NewEvaluator().AppendJSON(nil, p, rec)
			if stream.CodeOf(err) == CodeInternal {
				t.Fatalf("%q over %q: %v", src, value, err)
			}
			if err == nil && CheckJSON([]byte(value)) == nil && !json.Valid(out) {
				t.Fatalf("%q over %q gave %q", src, value, out)
			}
		}
	})
}
