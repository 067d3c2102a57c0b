package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The engine takes time, randomness and the outside world from stream.World, so
// that all of it runs in virtual time; it reports by returning errors and ends
// by returning. These are the doors that would lead around that.
var banned = []struct {
	pkg   string // import path; "" is the language itself
	names string // "*" is every function but those after "-"
	why   string
}{
	{"time", "Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker", "use the injected clock"},
	{"math/rand", "* -New -NewSource -NewZipf", "use the injected randomness"},
	{"math/rand/v2", "* -New -NewPCG -NewChaCha8 -NewZipf", "use the injected randomness"},
	{"os", "Exit", "return an error; only main exits"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf Panicln Print Printf Println", "log through the injected slog.Logger"},
	{"fmt", "Print Printf Println", "write to the writer you were given"},
	{"", "panic print println", "use internal/invariant for what cannot be, an error for what can"},
}

// door is a place, a file or a folder, that may use banned names, and why.
type door struct {
	path  string
	calls string // as written in the code
	why   string
}

var doors = []door{
	{"stream/system.go", "time.Now time.NewTimer time.NewTicker", "the one door to real time: SystemClock"},
	{"stream/batch.go", "panic", "stream stands below everything; a batch used after its release corrupts output"},
	{"expr/", "panic", "a failure ends an evaluation and is recovered at the entry points (failure.go)"},
	{"internal/invariant/", "panic", "this is what it is for"},
	{"internal/fault/", "time.Sleep panic", "planned misbehaviour, in tests only"},
	{"internal/testservice/", "time.NewTicker rand.IntN", "real servers live in real time, on free ports"},
	{"internal/kafkatest/", "time.Now time.NewTicker", "real servers live in real time"},
	{"internal/pgtest/", "time.Now", "real servers live in real time"},
	{"internal/redistest/", "time.Now", "real servers live in real time"},
	{"internal/testrun/", "time.Now time.Since os.Exit fmt.Print fmt.Printf fmt.Println", "a program that runs the tests and prints a table"},
	{"cmd/etl/main.go", "os.Exit", "main turns an error into an exit code"},
	{"examples/webhook/receiver/", "os.Exit", "a program for a page: its main ends it"},
	{"integration/", "time.Now time.Since time.Sleep time.After time.NewTimer time.NewTicker fmt.Printf fmt.Println os.Exit", "programs that mistreat real processes in real time"},
	{"bench/", "time.Now time.Since time.Sleep time.After time.NewTimer time.NewTicker fmt.Printf fmt.Println os.Exit", "programs that measure real time"},
}

// sleepers are the tests that may sleep. Inside a testing/synctest bubble time
// is virtual and a sleep is exact, so files that use it are free.
var sleepers = []door{
	{"internal/kafkatest/", "time.Sleep", "real servers"},
	{"internal/pgtest/", "time.Sleep", "real servers"},
}

func TestBannedCalls(t *testing.T) {
	used := map[string]bool{}
	for _, f := range files(t) {
		if f.test {
			testSleeps(t, f)
			continue
		}
		for _, u := range uses(f) {
			if opened(doors, f.path, u.name, used) {
				continue
			}
			t.Errorf("%s:%d: %s: %s (or name the place in internal/lint/calls_test.go)", f.path, u.line, u.name, u.why)
		}
	}
	unusedDoors(t, used)
}

func testSleeps(t *testing.T, f source) {
	for _, path := range f.imports() {
		if path == "testing/synctest" {
			return
		}
	}
	for _, u := range uses(f) {
		if u.name == "time.Sleep" && !opened(sleepers, f.path, u.name, map[string]bool{}) {
			t.Errorf("%s:%d: a test that sleeps is slow or wrong: wait for the event, or poll it with a deadline", f.path, u.line)
		}
	}
}

type use struct {
	name string
	line int
	why  string
}

// uses finds every mention of a banned name, called or only passed on.
func uses(f source) (found []use) {
	imports := f.imports()
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && imports[pkg.Name] != "" {
				found = append(found, lookUp(imports[pkg.Name], n.Sel.Name, pkg.Name+"."+n.Sel.Name, n)...)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok {
				found = append(found, lookUp("", id.Name, id.Name, n)...)
			}
		case *ast.ImportSpec:
			if importPath(n) == "net/http/pprof" && n.Name != nil && n.Name.Name == "_" {
				found = append(found, use{"_ net/http/pprof", line(n), "it opens the profiler on every default server"})
			}
		}
		return true
	})
	return found
}

func lookUp(pkg, name, written string, n ast.Node) []use {
	for _, b := range banned {
		if b.pkg != pkg || has(b.names, "-"+name) {
			continue
		}
		if has(b.names, name) || has(b.names, "*") && ast.IsExported(name) && !typeOf(pkg, name) {
			return []use{{written, line(n), b.why}}
		}
	}
	return nil
}

// typeOf: the types of math/rand are harmless.
func typeOf(pkg, name string) bool {
	return strings.HasPrefix(pkg, "math/rand") && has("Rand Source Source64 Zipf PCG ChaCha8", name)
}

func opened(list []door, path, name string, used map[string]bool) bool {
	for _, d := range list {
		if strings.HasPrefix(path, d.path) && has(d.calls, name) {
			used[d.path+" "+name] = true
			return true
		}
	}
	return false
}

// A door nobody goes through is closed again.
func unusedDoors(t *testing.T, used map[string]bool) {
	for _, d := range doors {
		if _, err := os.Stat(filepath.Join(root, d.path)); err != nil {
			continue // not built yet
		}
		if strings.HasPrefix(d.path, "integration/") || strings.HasPrefix(d.path, "bench/") {
			continue // whole folders of programs
		}
		for _, name := range strings.Fields(d.calls) {
			if !used[d.path+" "+name] {
				t.Errorf("internal/lint/calls_test.go: nothing in %s uses %s any more: remove it", d.path, name)
			}
		}
	}
}
