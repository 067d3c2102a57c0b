package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parse turns the text into a tree. It returns nil when there is none.
func (d *document) parse() *node {
	file := d.parseYAML()
	if file == nil {
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.DirectiveType:
		case body != nil:
			d.add(position(doc.Body), "", "config.documents", "a second document in the file", "keep one pipeline per file")
			return nil
		default:
			body = doc.Body
		}
	}
	if body == nil {
		d.add(Pos{}, "", "config.empty", "no pipeline is defined: the file is empty", "begin with name:, sources: and sinks:; see docs/pipeline-file.md")
		return nil
	}
	t := &tree{document: d, anchors: map[string]ast.Node{}}
	n := t.node(body, "", 0)
	if n.kind != mapNode {
		d.add(n.pos, "", "config.type", fmt.Sprintf("the file is %s, not a group of keys", n.kind), "begin with name:, sources: and sinks:; see docs/pipeline-file.md")
		return nil
	}
	return n
}

// parseYAML contains the parser: whatever it does with a bad file, the answer is
// a problem.
func (d *document) parseYAML() (file *ast.File) {
	defer func() {
		if r := recover(); r != nil {
			d.add(Pos{}, "", "config.syntax", fmt.Sprintf("the file cannot be parsed: %v", r), "")
			file = nil
		}
	}()
	tokens := lexer.Tokenize(d.text)
	if at := tooDeep(tokens); at != nil {
		d.add(Pos{at.Line, at.Column}, "", "config.too_deep", fmt.Sprintf("more than %d levels of nesting", maxDepth), "a pipeline file needs far fewer")
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return nil
	}
	return file
}

// maxDepth bounds nesting: the parser is recursive, and no stack overflow can be
// recovered from.
const maxDepth = 50

// tooDeep finds the token at which brackets, or dashes, tags and anchors in a row,
// would make the parser nest deeper than maxDepth.
func tooDeep(tokens token.Tokens) *token.Position {
	open, run := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open++
			run++
		case token.SequenceEndType, token.MappingEndType:
			open, run = max(open-1, 0), 0
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			run++
		case token.CommentType:
		default:
			run = 0
		}
		if open > maxDepth || run > 2*maxDepth {
			return t.Position
		}
	}
	return nil
}

// hints say more about what the parser found; the first that occurs counts.
var hints = []struct{ found, message, fix string }{
	{"that cannot start any token", "a character that cannot begin a value here", "indent with spaces, not tabs; put a value that begins with @ or ` in quotes"},
	{"end character of double-quoted", "a double quote that is not closed", "close it, or put the whole value in single quotes"},
	{"end character of single-quoted", "a single quote that is not closed", "close it; inside single quotes a quote is written twice"},
	{"map key-value is pre-defined", "text after the end of the value", "a value that begins with a quote ends with the next one: put the whole expression in single quotes, or below the key after |"},
	{"mapping value is not allowed", "a second \": \" in one line", "put the value in quotes if it holds a colon and a space; else begin a new line"},
	{"value is not allowed in this context", "a key or value that does not fit its indentation", "give the keys of a group the same indentation, and lists their dashes"},
	{"must be specified", "a list or group in brackets that is not closed", "close it, and separate elements by commas"},
	{"end token", "a bracket that is not closed", "close it"},
	{"unexpected key name", "a line that is not of the form key: value", "write a colon and a space after the key"},
	{"non-map value", "a line that is not of the form key: value", "write a colon and a space after the key"},
	{"anchor", "an anchor that is not allowed here", ""},
	{"alias", "an alias that is not allowed here", ""},
}

// syntax reports an error of the parser in our words.
func (d *document) syntax(err error) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		d.add(Pos{}, "", "config.syntax", "the file is not YAML", "")
		return
	}
	at := Pos{e.GetToken().Position.Line, max(e.GetToken().Position.Column, 1)}
	message, fix := e.GetMessage(), ""
	for _, h := range hints {
		if strings.Contains(message, h.found) {
			message, fix = h.message, h.fix
			break
		}
	}
	at = d.secondColon(at, message)
	if at.Line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[at.Line-1], " "), "\t") {
		message, fix = "a tab in the indentation", "indent with spaces"
	}
	d.add(at, "", "config.syntax", message, fix)
}

// secondColon moves a place to the colon that the message is about: the parser
// gives the beginning of the value.
func (d *document) secondColon(at Pos, message string) Pos {
	if !strings.HasPrefix(message, "a second") || at.Line > len(d.lines) {
		return at
	}
	row := []rune(d.lines[at.Line-1])
	for i := at.Column - 1; i+1 < len(row); i++ {
		if row[i] == ':' && row[i+1] == ' ' {
			return Pos{at.Line, i + 1}
		}
	}
	return at
}

func position(n ast.Node) Pos {
	if n == nil || n.GetToken() == nil {
		return Pos{}
	}
	p := n.GetToken().Position
	return Pos{p.Line, p.Column}
}
