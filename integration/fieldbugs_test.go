package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The rows there are, by what they are about. A row is not dropped from the page
// because its test is.
var fieldBugs = map[string]string{
	"K": "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38",
	"S": "02 03 05 06 08 09 11 12 14 15 17 18 20 21 23 24",
	"C": "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28",
	"D": "01 03 04 06 07 09 10 12 13 15 16 18 19",
	"P": "02 03 05 06 08 09 11 12 14 15 17 18 20 21",
	"F": "02 03 05 06",
	"R": "02 03 05 06 08 09",
}

var (
	bugRow   = regexp.MustCompile(`(?m)^\| ([KSCDRPF]\d\d) \|.*\| ([^|]*) \|$`)
	bugTest  = regexp.MustCompile(`([\w/]+_test\.go):(\w+)`)
	bugLimit = regexp.MustCompile(`known limit: (.+)$`)
)

// TestFieldBugs: every row of docs/field-bugs.md names tests that exist, or a line
// of docs/known-limits.md, or both, and no row is missing.
func TestFieldBugs(t *testing.T) {
	limits := read(t, "../docs/known-limits.md")
	seen := map[string]bool{}
	for _, m := range bugRow.FindAllStringSubmatch(read(t, "../docs/field-bugs.md"), -1) {
		row, here := m[1], m[2]
		if seen[row] {
			t.Errorf("%s is there twice", row)
		}
		seen[row] = true
		tests, limit := bugTest.FindAllStringSubmatch(here, -1), bugLimit.FindStringSubmatch(here)
		if len(tests) == 0 && limit == nil {
			t.Errorf("%s names neither a test nor a known limit", row)
		}
		if limit != nil && !strings.Contains(limits, "* **"+limit[1]+".**") {
			t.Errorf("%s: docs/known-limits.md has no line %q", row, limit[1])
		}
		for _, x := range tests {
			if !strings.Contains(read(t, filepath.Join("..", x[1])), "func "+x[2]+"(") {
				t.Errorf("%s: %s has no function %s", row, x[1], x[2])
			}
		}
	}
	n := 0
	for kind, numbers := range fieldBugs {
		for _, number := range strings.Fields(numbers) {
			n++
			if !seen[kind+number] {
				t.Errorf("%s%s is missing", kind, number)
			}
		}
	}
	if n != len(seen) {
		t.Errorf("%d rows, want %d", len(seen), n)
	}
}

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}
