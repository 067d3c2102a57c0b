package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"etl/stream"
)

// The limits of an expression.
const (
	maxSource = 16 << 10 // bytes
	maxNodes  = 2000     // of the syntax tree
	// maxTerms bounds what is compiled: the parser uses a part twice for a < b < c
	// and a ?: b, so that nesting these doubles the work at every level.
	maxTerms = 4 * maxNodes
)

// Env says what an expression may refer to.
type Env struct {
	// This is the schema of the records; nil: JSON documents of any shape.
	This *stream.Schema
	// It, Table and Window are the types of these names, nil where a name is not
	// in scope.
	It, Table, Window *stream.Type
	// Want is the kind the result must have; Any for no demand. Decimal allows
	// ints. An unknown type passes and is tested at evaluation.
	Want stream.Kind
}

// Compile compiles src. The error is an *[Error].
func Compile(src string, env Env) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				e = &Error{Code: CodeInternal, Line: 1, Column: 1, Message: fmt.Sprintf("internal error: %v", r)}
			}
			p, err = nil, e
		}
	}()
	c := &compiler{src: src, env: env}
	if c.env.This == nil {
		c.env.This = &stream.Schema{Format: stream.JSON}
	}
	t := c.term(c.parse())
	c.want(t)
	return &Program{src: src, typ: t.typ, run: t.value(), test: t.test, path: t.path, name: t.name, vars: c.slots}, nil
}

// term is a compiled part of an expression.
type term struct {
	typ  stream.Type
	run  func(*Evaluator) Value
	test func(*Evaluator) bool // of conditions; then run may be nil
	path *path                 // of a plain path into a document
	name string                // last name of a plain path
	lit  bool                  // depends on nothing
}

// value returns the term as a function that gives a Value.
func (t term) value() func(*Evaluator) Value {
	if t.run != nil {
		return t.run
	}
	test := t.test
	return func(ev *Evaluator) Value { return BoolValue(test(ev)) }
}

// variable is a name of let, or the element of a loop.
type variable struct {
	name string // of let
	slot int
	typ  stream.Type
}

// loop is what #, #index and #acc mean inside a loop's predicate.
type loop struct {
	elem, index, acc int // slots; acc is -1 but in reduce
	typ, accTyp      stream.Type
}

type compiler struct {
	src   string
	env   Env
	slots int
	count int // terms compiled
	lets  []variable
	loops []loop
}

func (c *compiler) slot() int {
	c.slots++
	return c.slots - 1
}

// errorf ends the compilation.
func (c *compiler) errorf(at int, code, format string, args ...any) {
	line, column := place(c.src, at)
	panic(&Error{Code: code, Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
}

// errorNear is errorf with the names that may have been meant.
func (c *compiler) errorNear(at int, code, name string, known []string, format string, args ...any) {
	line, column := place(c.src, at)
	panic(&Error{Code: code, Line: line, Column: column, Message: fmt.Sprintf(format, args...), Near: Near(name, known)})
}

func (c *compiler) parse() ast.Node {
	switch {
	case strings.TrimSpace(c.src) == "":
		c.errorf(0, CodeSyntax, "empty expression")
	case len(c.src) > maxSource:
		c.errorf(0, CodeLimit, "expression of %d bytes, more than %d", len(c.src), maxSource)
	case !utf8.ValidString(c.src):
		c.errorf(0, CodeSyntax, "expression is not valid UTF-8")
	}
	cfg := conf.CreateNew()
	cfg.MaxNodes = maxNodes
	tree, err := parser.ParseWithConfig(c.src, cfg)
	if err != nil {
		c.parseError(err)
	}
	return tree.Node
}

func (c *compiler) parseError(err error) {
	e, ok := err.(*file.Error)
	if !ok {
		c.errorf(0, CodeSyntax, "%v", err)
	}
	if strings.Contains(e.Message, "maximum allowed nodes") {
		c.errorf(e.From, CodeLimit, "expression has more than %d parts", maxNodes)
	}
	if name, at := meant(c.src, e.From); name != "" {
		word, _ := wordAt([]rune(c.src), at)
		line, column := place(c.src, at)
		panic(&Error{Code: CodeSyntax, Line: line, Column: column, Message: fmt.Sprintf("%q does not exist here", word), Near: []string{name}})
	}
	c.errorf(e.From, CodeSyntax, "%s", e.Message)
}

// want checks the demand on the result.
func (c *compiler) want(t term) {
	w := c.env.Want
	if w == stream.Any || may(t.typ, w) {
		return
	}
	c.errorf(0, CodeType, "must be %s, is %s", w, t.typ.Kind)
}

// term compiles one node.
func (c *compiler) term(n ast.Node) term {
	if c.count++; c.count > maxTerms {
		c.errorf(at(n), CodeLimit, "expression has more than %d parts", maxTerms)
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return literal(null)
	case *ast.BoolNode:
		return literal(BoolValue(n.Value))
	case *ast.IntegerNode, *ast.FloatNode:
		return c.numberLiteral(n)
	case *ast.StringNode:
		return literal(StringValue(n.Value))
	case *ast.IdentifierNode:
		return c.identifier(n)
	case *ast.ChainNode:
		return c.term(n.Node)
	case *ast.MemberNode:
		return c.memberOf(n)
	case *ast.SliceNode:
		return c.slice(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.ArrayNode:
		return c.array(n)
	case *ast.MapNode:
		return c.object(n)
	case *ast.PointerNode:
		return c.pointer(n)
	case *ast.VariableDeclaratorNode:
		return c.let(n)
	case *ast.BuiltinNode:
		return c.builtin(n)
	case *ast.CallNode:
		return c.call(n)
	case *ast.SequenceNode:
		c.errorf(at(n.Nodes[1]), CodeUnsupported, "only one expression: nothing it could do would last")
	}
	c.errorf(at(n), CodeUnsupported, "%T is not supported", n)
	return term{}
}

// at returns the position of a node in the source, in characters.
func at(n ast.Node) int {
	if n == nil {
		return 0
	}
	if c, ok := n.(*ast.ConditionalNode); ok {
		return at(c.Cond) // the parser gives it none
	}
	return n.Location().From
}

func literal(v Value) term {
	t := term{typ: of(v.kind), run: func(*Evaluator) Value { return v }, lit: true}
	if items, ok := v.list(); ok {
		t.typ = listOf(literalElem(items))
	}
	return t
}

func literalElem(items []Value) stream.Type {
	if len(items) == 0 {
		return of(stream.Any)
	}
	t := of(items[0].kind)
	for _, e := range items[1:] {
		t = join(t, of(e.kind))
	}
	return t
}

// fold evaluates a term now if it depends on nothing: what fails then would fail
// on every record.
func (c *compiler) fold(n ast.Node, t term, parts ...term) term {
	for _, p := range parts {
		if !p.lit {
			return t
		}
	}
	v, err := c.constant(t)
	if err != nil {
		c.errorf(max(err.at, 0), CodeConstant, "%s", err.message)
	}
	folded := literal(v.clone())
	if v.kind != stream.Null {
		folded.typ = t.typ
	}
	return folded
}

func (c *compiler) constant(t term) (v Value, err *failure) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*failure)
			if !ok {
				panic(r)
			}
			err = f
		}
	}()
	ev := NewEvaluator()
	ev.steps, ev.bytes = maxSteps, maxBytes
	ev.room(c.slots)
	return t.value()(ev), nil
}
