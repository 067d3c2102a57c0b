package torture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"etl/sink/idempotent"
	"etl/sink/twophase/file"
	sinkpoints "etl/sink/twophase/kafka"
	"etl/sink/twophase/postgres"
	"etl/sink/wal"
	sourcepoints "etl/source/kafka"
)

// elsewhere are the points of sinks that the jobs of the torture do not have. Their own
// room lists them, and kills at each: in the conformance suite, and integration/ with
// real processes.
var elsewhere = []map[string]string{file.Points}

// Each point of a sink that writes tables is one at which the jobs of a strategy die, and
// no strategy has one that there is not.
func TestTablePointsAreThoseOfTheSinks(t *testing.T) {
	named, known := map[string]bool{}, map[string]bool{}
	for _, points := range TablePoints {
		for _, p := range points {
			named[p.Name] = true
		}
	}
	for _, points := range []map[string]string{postgres.Points, wal.Points, idempotent.Points} {
		for name := range points {
			known[name] = true
			if !named[name] && !otherTargets(name) {
				t.Errorf("no strategy has the point %q", name)
			}
		}
	}
	for name := range named {
		if !known[name] {
			t.Errorf("no sink has the point %q", name)
		}
	}
	for _, p := range decided {
		if !slices.ContainsFunc(Points, func(x Point) bool { return x.Name == p.Name }) {
			t.Errorf("the table has no point %q", p.Name)
		}
	}
}

// A point in the code that nobody is killed at is a hole in the proof; one in the
// table that the code does not have is a lie.
func TestEveryPointIsInTheTable(t *testing.T) {
	patterns := pointsInTheCode(t)
	everywhere := append([]map[string]string{postgres.Points, wal.Points, idempotent.Points}, elsewhere...)
	for _, p := range patterns {
		if slices.ContainsFunc(everywhere, func(points map[string]string) bool { return p.fitsOneOf(points) }) {
			continue
		}
		if !slices.ContainsFunc(Points, func(x Point) bool { return p.fits(x.Name) }) {
			t.Errorf("%s: the point %q is not in the table", p.at, p.text())
		}
	}
	seen := map[string]bool{}
	for _, x := range Points {
		if seen[x.Name] || seen[x.K] {
			t.Errorf("%s or %s is in the table twice", x.Name, x.K)
		}
		seen[x.Name], seen[x.K] = true, true
		if !slices.ContainsFunc(patterns, func(p pattern) bool { return p.fits(x.Name) }) {
			t.Errorf("the code has no point %q", x.Name)
		}
	}
	for name := range sinkpoints.Points {
		if !seen[name] {
			t.Errorf("the sink names the point %q", name)
		}
	}
	for _, points := range everywhere {
		for name := range points {
			if !slices.ContainsFunc(patterns, func(p pattern) bool { return p.fits(name) }) {
				t.Errorf("the code has no point %q", name)
			}
		}
	}
	for name := range sourcepoints.Points {
		if !seen[name] {
			t.Errorf("the source names the point %q", name)
		}
	}
}

// pattern is the name of a point as the code has it: its constant pieces.
type pattern struct {
	at     string
	pieces []string // "" between two where something is put in
}

func (p *pattern) text() string { return strings.Join(p.pieces, "*") }

func (p *pattern) fits(name string) bool {
	ok, err := filepath.Match(strings.ReplaceAll(p.text(), "**", "*"), name)
	return err == nil && ok
}

func (p *pattern) fitsOneOf(points map[string]string) bool {
	for name := range points {
		if p.fits(name) {
			return true
		}
	}
	return false
}

// pointsInTheCode are those of the packages that the binary links.
func pointsInTheCode(t *testing.T) (out []pattern) {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, "etl/cmd/etl")
	b, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	for path := range strings.FieldsSeq(string(b)) {
		if !strings.HasPrefix(path, root+"/") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if p, ok := pointCall(n); ok {
				out = append(out, pattern{files.Position(n.Pos()).String(), p})
			}
			return true
		})
	}
	if len(out) < 30 {
		t.Fatalf("only %d points found: the search is blind", len(out))
	}
	return out
}

// pointCall takes calls of fault.Point and fault.Err.
func pointCall(n ast.Node) ([]string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return nil, false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Point" && f.Sel.Name != "Err" {
		return nil, false
	}
	if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "fault" {
		return nil, false
	}
	return constants(call.Args[0]), true
}

// constants are the pieces of a name around what is put in.
func constants(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return []string{s}
	case *ast.BinaryExpr:
		l, r := constants(e.X), constants(e.Y)
		joined := slices.Clone(l)
		joined[len(joined)-1] += r[0]
		return append(joined, r[1:]...)
	}
	return []string{"", ""}
}
