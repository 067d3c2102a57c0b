package lint

import (
	"bufio"
	"fmt"
	"go/ast"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Short functions and files can be read in one look. Most functions here have
// about ten lines; the limits are for the rare long one. At the limit a thing
// must not creep over it: it is split, or listed in ratchet.txt with a reason.
const (
	functionLimit = 70
	fileLimit     = 500
	fileMost      = 800 // no reason is good enough
	ratchetFile   = "ratchet.txt"
)

func TestLengths(t *testing.T) {
	listed := ratchet(t)
	for _, f := range files(t) {
		if f.lines > fileMost {
			t.Errorf("%s has %d lines, more than %d: split it", f.path, f.lines, fileMost)
			continue
		}
		measure(t, listed, "file "+f.path, f.lines, fileLimit)
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lines := positions.Position(fn.End()).Line - line(fn) + 1
				measure(t, listed, "func "+f.path+":"+functionName(fn), lines, functionLimit)
			}
		}
	}
	for what := range listed {
		t.Errorf("%s: %s is no longer there or no longer long: remove the line", ratchetFile, what)
	}
}

// measure takes what it finds off the list, so that the rest is stale.
func measure(t testing.TB, listed map[string]int, what string, lines, limit int) {
	allowed, ok := listed[what]
	if lines <= limit {
		return
	}
	delete(listed, what)
	switch {
	case !ok:
		t.Errorf("%s has %d lines, more than %d: split it, or list it in internal/lint/%s with a reason", what, lines, limit, ratchetFile)
	case lines > allowed:
		t.Errorf("%s grew from %d to %d lines: it may only shrink", what, allowed, lines)
	case lines < allowed:
		t.Errorf("%s shrank from %d to %d lines: well done, write the new number into %s", what, allowed, lines, ratchetFile)
	}
}

func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	star, name := "", fn.Recv.List[0].Type
	if p, ok := name.(*ast.StarExpr); ok {
		star, name = "*", p.X
	}
	switch generic := name.(type) {
	case *ast.IndexExpr:
		name = generic.X
	case *ast.IndexListExpr:
		name = generic.X
	}
	return fmt.Sprintf("(%s%s).%s", star, name, fn.Name.Name)
}

// ratchet reads lines of "func path:Name lines reason" and "file path lines reason".
func ratchet(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 4 {
			t.Fatalf("%s: %q: want kind, place, lines and a reason", ratchetFile, s.Text())
		}
		lines, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatalf("%s: %q: %v", ratchetFile, s.Text(), err)
		}
		listed[words[0]+" "+words[1]] = lines
	}
	return listed
}
