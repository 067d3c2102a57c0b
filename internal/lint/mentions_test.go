package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The repository stands alone: nothing in it may point to folders of the machine
// it was written on. The needles are in pieces, or this file would find itself.
var outside = []string{"/wo" + "rk/", "../sha" + "red"}

func TestNothingPointsOutside(t *testing.T) {
	for _, path := range committed(t) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			continue // deleted and not yet committed, or binary
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, needle := range outside {
				if strings.Contains(line, needle) {
					t.Errorf("%s:%d mentions %s, which is outside the repository", path, n+1, needle)
				}
			}
		}
	}
}

// Nor to a document that is not here: what the code must do is said in docs/ and in
// package docs, by name.
func TestNoUnnamedSpecification(t *testing.T) {
	needle := "the " + "specification"
	for _, f := range files(t) {
		for _, group := range f.ast.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			if strings.Contains(text, needle) || strings.Contains(text, "torture "+needle[4:]) {
				t.Errorf("%s:%d speaks of %s: name the page of docs/ that says it", f.path, positions.Position(group.Pos()).Line, needle)
			}
		}
	}
}

// committed is every file that git has or would take.
func committed(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
}
