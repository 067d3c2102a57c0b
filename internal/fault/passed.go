package fault

import (
	"fmt"
	"os"
	"sync"
)

// recorder appends the name of every point to a file when it is passed for the
// first time: a harness that kills the process wants to know afterwards which
// points lay on its way. Whoever reads the file finds whole lines, because each is
// one write.
func recorder(file string) (func(name string), error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record passed points: %w", err)
	}
	var known sync.Map
	return func(name string) {
		if _, seen := known.LoadOrStore(name, true); !seen {
			_, _ = f.WriteString(name + "\n") // a record of tests: nothing may depend on it
		}
	}, nil
}
