package spool_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	spool "etl/examples/own-sink"
	"etl/sink"
	"etl/sink/sinktest"
)

// The conformance suite kills processes at every operation on a file, runs zombies,
// restores old checkpoints and plays random histories. All that a sink brings is how it
// is connected, and how its readers read.
func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{Places: 10, Runs: 20, New: func(t testing.TB) *sinktest.Harness {
		dir := t.TempDir()
		return &sinktest.Harness{
			Connect: func(p sinktest.Process) sink.Connector { return spool.Spool{Dir: dir} },
			Read:    func(context.Context) ([]sinktest.Row, error) { return rows(dir) },
			InDoubt: func(context.Context) ([]string, error) { return prepared(dir) },
		}
	}})
}

// rows reads the files as a reader does: each subtask's in the order of its checkpoints.
func rows(dir string) (out []sinktest.Row, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "job=*", "sink=*", "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b string) int {
		x, y := numbers(a), numbers(b)
		return cmp.Or(cmp.Compare(filepath.Dir(a), filepath.Dir(b)), slices.Compare(x[:], y[:]))
	})
	lanes := map[string]int{}
	for _, name := range files {
		lane := fmt.Sprint(filepath.Dir(name), numbers(name)[0])
		if _, known := lanes[lane]; !known {
			lanes[lane] = len(lanes)
		}
		more, err := read(name, lanes[lane])
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// numbers are the subtask, attempt and number in a file's name.
func numbers(file string) (n [3]int) {
	for i, s := range strings.SplitN(strings.TrimSuffix(filepath.Base(file), ".jsonl"), "-", 3) {
		n[i], _ = strconv.Atoi(s)
	}
	return n
}

func read(name string, lane int) (out []sinktest.Row, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var l spool.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(l.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, sinktest.Row{Key: l.Key, N: n, Partition: lane})
	}
	return out, nil
}

// prepared lists what is hidden, in the names of Inspect.
func prepared(dir string) (names []string, err error) {
	root := filepath.Join(dir, "job=job")
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, p)
			if _, name, ok := strings.Cut(filepath.ToSlash(rel), "/.prepared/"); ok {
				names = append(names, name)
			}
		}
		return err
	})
	slices.Sort(names)
	return names, err
}
