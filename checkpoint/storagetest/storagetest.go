// Package storagetest is the conformance suite of checkpoint.Storage: every
// store passes it, those written outside this repository too.
//
//	func TestStorage(t *testing.T) {
//		storagetest.Run(t, storagetest.Suite{
//			New: func(t *testing.T) storagetest.Opener { ... },
//		})
//	}
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"etl/checkpoint"
)

// Opener opens the same storage again and again, as several processes would.
type Opener func(t *testing.T) checkpoint.Storage

// Suite describes the storage under test.
type Suite struct {
	// New returns an opener of a new, empty storage.
	New func(t *testing.T) Opener
	// Writers is the number of writers that race for one name; default 8. Rounds
	// is how often; default 20.
	Writers, Rounds int
	// NoLock skips the advisory lock.
	NoLock bool
}

// Run tests the storage.
func Run(t *testing.T, s Suite) {
	if s.Writers == 0 {
		s.Writers = 8
	}
	if s.Rounds == 0 {
		s.Rounds = 20
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, Suite)
	}{
		{"put if absent", putIfAbsent}, {"race for a name", race}, {"create", create}, {"ranges", ranges},
		{"list", list}, {"delete", deletes}, {"names", names}, {"notes", notes}, {"lock", lock},
		{"another process sees all", reopened}, {"ended context", ended},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks an object's contents; "-" stands for "there is none".
func want(t *testing.T, st checkpoint.Storage, name, text string) {
	t.Helper()
	b, err := st.Get(context.Background(), name)
	switch {
	case text == "-" && !errors.Is(err, checkpoint.ErrNotFound):
		t.Errorf("%s: got %q, %v; want ErrNotFound", name, b, err)
	case text != "-" && (err != nil || string(b) != text):
		t.Errorf("%s: got %q, %v; want %q", name, b, err, text)
	}
}

func wantList(t *testing.T, st checkpoint.Storage, prefix string, names ...string) {
	t.Helper()
	infos, err := st.List(context.Background(), prefix)
	must(t, err)
	var got []string
	for _, in := range infos {
		got = append(got, in.Name)
		if stat, err := st.Stat(context.Background(), in.Name); err != nil || stat != in {
			t.Errorf("Stat says %v, %v; List says %v", stat, err, in)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("List(%q) = %v, want %v", prefix, got, names)
	}
}

func readRange(st checkpoint.Storage, name string, offset, size int64) (string, error) {
	r, err := st.Open(context.Background(), name, offset, size)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	if err == nil && int64(len(b)) != size {
		err = io.ErrUnexpectedEOF
	}
	return string(b), errors.Join(err, r.Close())
}
