package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestErrorsAreDocumented: every code that a story has shown is explained.
func TestErrorsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?m)^(?:error|warning) ([a-z_]+\.[a-z_]+)`)
	for _, pattern := range []string{"testdata/load/*", "kafka/testdata/load", "postgres/testdata/load", "postgres/testdata/idempotent", "redis/testdata/load"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal("no stories", err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range code.FindAllStringSubmatch(string(b), -1) {
				if !strings.Contains(string(page), "`"+m[1]+"`") {
					t.Errorf("%s: %s is not in docs/errors.md", name, m[1])
				}
			}
		}
	}
}
