package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// journeyRow is a line of a journey table in ARCHITECTURE.md: step, file, function.
var journeyRow = regexp.MustCompile(`(?m)^\| ([RBV]\d+) \| (\S+\.go) \| (\S+) \|`)

// TestJourneys keeps the journeys of ARCHITECTURE.md true: every step is there, in
// order, and names a function that exists and whose comment names the step.
func TestJourneys(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*ast.File{}
	for _, f := range files(t) {
		byPath[filepath.ToSlash(f.path)] = f.ast
	}
	var steps []string
	for _, row := range journeyRow.FindAllStringSubmatch(string(text), -1) {
		step, path, name := row[1], row[2], row[3]
		steps = append(steps, step)
		file := byPath[path]
		if file == nil {
			t.Errorf("%s: there is no file %s", step, path)
			continue
		}
		doc, ok := funcDoc(file, name)
		switch {
		case !ok:
			t.Errorf("%s: %s has no function %s", step, path, name)
		case !regexp.MustCompile(`\b` + step + `\b`).MatchString(doc):
			t.Errorf("%s: the comment of %s in %s does not name the step", step, name, path)
		}
	}
	want := "R1 R2 R3 R4 R5 R6 R7 B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11 V1 V2 V3 V4 V5 V6 V7 V8 V9"
	if got := strings.Join(steps, " "); got != want {
		t.Errorf("the journeys are %s, they should be %s", got, want)
	}
}

// funcDoc returns the comment of a function "F" or method "T.F".
func funcDoc(f *ast.File, name string) (string, bool) {
	recv, method, isMethod := strings.Cut(name, ".")
	for _, d := range f.Decls {
		fd, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		switch {
		case !isMethod && fd.Recv == nil && fd.Name.Name == name,
			isMethod && fd.Recv != nil && fd.Name.Name == method && receiver(fd) == recv:
			return fd.Doc.Text(), true
		}
	}
	return "", false
}

func receiver(fd *ast.FuncDecl) string {
	t := fd.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
