package lint

import (
	"strings"
	"testing"
)

// Every package has one comment that says what it is for; in doc.go when it is long.
func TestPackageDocs(t *testing.T) {
	documented := map[string][]string{}
	for _, f := range files(t) {
		if _, known := documented[f.dir]; !known {
			documented[f.dir] = nil
		}
		if doc := f.ast.Doc.Text(); doc != "" && !strings.HasPrefix(doc, "go:") {
			documented[f.dir] = append(documented[f.dir], f.path)
			checkStart(t, f, doc)
		}
	}
	for dir, where := range documented {
		if len(where) == 0 {
			t.Errorf("package %s has no doc comment: say its duties and rules", dir)
		}
	}
}

func checkStart(t *testing.T, f source, doc string) {
	name := f.ast.Name.Name
	want := "Package " + name + " "
	if name != "main" && !f.test && !strings.HasPrefix(doc, want) {
		t.Errorf("%s: the package comment must begin with %q", f.path, want)
	}
}
