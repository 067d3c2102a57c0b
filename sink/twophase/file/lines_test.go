package file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"etl/stream"
)

// shelve writes files below a new directory.
func shelve(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aName is the name of a part, as the sink writes it.
func aName(seq int, ext string) string {
	return partName("a.job", "out", stream.Lineage{1}, stream.NewCheckpointID(1, 1), 0, seq, ext)
}

// Rows are read of the parts of this job's sink that readers see, each part once, in the
// order of names, wherever below the path they lie.
func TestLines(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("3\n")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	other := partName("a", "out", stream.Lineage{1}, stream.NewCheckpointID(1, 1), 0, 1, ".jsonl")
	dir := shelve(t, map[string]string{
		aName(4, ".jsonl"): "4\n5\n", "day=1/" + aName(3, ".jsonl.gz"): packed.String(), "moved/away/" + aName(2, ".jsonl"): "1\n\n", "zz/" + aName(2, ".jsonl"): "1\n\n",
		aName(1, ".jsonl"): "", ".etl/a%2Ejob/out/x/000001.pending": "8\n", ".etl/" + aName(6, ".jsonl"): "8\n", ".old/" + aName(7, ".jsonl"): "8\n",
		other: "9\n", aName(8, ".jsonl") + ".tmp": "9\n", "x" + aName(8, ".jsonl"): "9\n", aName(8, ".txt"): "9\n",
	})
	if err := os.Symlink(filepath.Join(dir, other), filepath.Join(dir, aName(9, ".jsonl"))); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := Lines(dir, "a.job", "out", func(l Line) error {
		got = append(got, fmt.Sprintf("%s %d.%d %s", l.Name[len(l.Name)-11:], l.File, l.N, l.Doc))
		return nil
	})
	want := []string{"-0002.jsonl 1.0 1", "-0002.jsonl 1.1 ", "03.jsonl.gz 2.0 3", "-0004.jsonl 3.0 4", "-0004.jsonl 3.1 5"}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, %v", got, err)
	}
}

// A part that cannot be read as it was written is an error with its name, and never the
// end of the reading.
func TestLinesRefuse(t *testing.T) {
	for name, c := range map[string]struct{ file, text, code, want string }{
		"cut":          {aName(1, ".jsonl"), "1\n2", "file.unreadable", "its last line has no end"},
		"no gzip":      {aName(1, ".jsonl.gz"), "not packed at all\n", "file.unreadable", "gzip"},
		"cut gzip":     {aName(1, ".jsonl.gz"), "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x32", "file.unreadable", "EOF"},
		"other format": {aName(1, ".parquet"), "PAR1", "file.unreadable", "another format"},
	} {
		err := Lines(shelve(t, map[string]string{c.file: c.text}), "a.job", "out", func(Line) error { return nil })
		if stream.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := Lines(filepath.Join(t.TempDir(), "none"), "a.job", "out", func(Line) error { return nil })
	if stream.CodeOf(err) != "file.path" || stream.ClassOf(err) != stream.Environment {
		t.Errorf("no directory: %v", err)
	}
}
