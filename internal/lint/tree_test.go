package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "etl"
)

// source is one parsed Go file.
type source struct {
	path  string // from the repository's root, with slashes
	dir   string // its package's folder, "." for the root
	test  bool
	lines int
	ast   *ast.File
}

// imports maps the local name of each import to its path.
func (s source) imports() map[string]string {
	named := map[string]string{}
	for _, spec := range s.ast.Imports {
		path := importPath(spec)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if strings.HasPrefix(name, "v") && len(name) == 2 { // .../rand/v2
			name = filepath.Base(filepath.Dir(path))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		named[name] = path
	}
	return named
}

func importPath(spec *ast.ImportSpec) string {
	path, _ := strconv.Unquote(spec.Path.Value)
	return path
}

// tree is the whole repository, parsed once for all rules.
var tree = sync.OnceValues(func() ([]source, error) {
	var files []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parse(path)
		files = append(files, file)
		return err
	})
	return files, err
})

var positions = token.NewFileSet()

func parse(path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(positions, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{
		path: filepath.ToSlash(rel), dir: filepath.ToSlash(filepath.Dir(rel)),
		test: strings.HasSuffix(path, "_test.go"), lines: strings.Count(string(text), "\n"), ast: file,
	}, err
}

func files(t *testing.T) []source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func line(n ast.Node) int { return positions.Position(n.Pos()).Line }
