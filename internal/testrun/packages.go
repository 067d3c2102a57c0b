package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// listed is one answer of "go list -test": a package, or a package's test program.
type listed struct {
	ImportPath string
	Deps       []string
}

// packages sorts all packages that have tests into their kinds.
func packages() (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-test", "-json=ImportPath,Deps", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	byKind := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return byKind, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if name, ok := strings.CutSuffix(p.ImportPath, ".test"); ok {
			k := kindOf(name, p.Deps)
			byKind[k] = append(byKind[k], name)
		}
	}
}

// kindOf decides by folder, else by what the test program links.
func kindOf(pkg string, links []string) string {
	for _, k := range kinds {
		if k.below != "" {
			if pkg == k.below || strings.HasPrefix(pkg, k.below+"/") {
				return k.name
			}
			continue
		}
		if len(k.markers) == 0 {
			return k.name
		}
		for _, m := range k.markers {
			if pkg == m || slices.ContainsFunc(links, func(dep string) bool { return plain(dep) == m }) {
				return k.name
			}
		}
	}
	return ""
}

// plain cuts "pkg [other.test]", a package compiled anew for a test, to "pkg".
func plain(dep string) string {
	name, _, _ := strings.Cut(dep, " ")
	return name
}
