package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fileTarget is the directory of a file sink. Each partition's directory stands for a
// partition of a topic, the rows of its files, one after the other, for its offsets.
type fileTarget struct {
	rows  *fileRows
	dirs  []string
	files [][]partFile // of each directory
}

// partFile is a part file.
type partFile struct {
	name    string // relative to the path
	lineage string
	// attempt, subtask, n and seq are the numbers in its name.
	attempt, subtask, n, seq int64
	first, rows              int64 // offset of its first row; how many it has
}

// prefix begins the names of a sink's files.
func (f *FileSink) prefix() string { return percent(f.Job, "-_") + "." + percent(f.UID, "-_") + "." }

var partForm = regexp.MustCompile(`^([0-9a-f]{8})-(\d{5,})-(\d{4,})-(\d{8,})-(\d{4,})\.(?:jsonl|csv|parquet)(?:\.gz|\.zst)?$`)

// list finds the part files of the sink, in the order in which they were committed.
func (t *fileTarget) list(ctx context.Context) error {
	f := t.rows.spec
	at := map[string]int{}
	err := filepath.WalkDir(f.Path, func(name string, d fs.DirEntry, err error) error {
		if file, err := walked(ctx, d, err); !file {
			return err
		}
		rest, ok := strings.CutPrefix(d.Name(), f.prefix())
		m := partForm.FindStringSubmatch(rest)
		if !ok || m == nil {
			return nil // somebody else's
		}
		rel, err := filepath.Rel(f.Path, name)
		if err != nil {
			return err
		}
		dir := "./"
		if d := filepath.Dir(rel); d != "." {
			dir += filepath.ToSlash(d) + "/"
		}
		if _, ok := at[dir]; !ok {
			at[dir] = len(t.dirs)
			t.dirs, t.files = append(t.dirs, dir), append(t.files, nil)
		}
		p := partFile{name: rel, lineage: m[1]}
		for i, n := range []*int64{&p.attempt, &p.subtask, &p.n, &p.seq} {
			if *n, err = strconv.ParseInt(m[2+i], 10, 64); err != nil {
				return err
			}
		}
		t.files[at[dir]] = append(t.files[at[dir]], p)
		return nil
	})
	for _, files := range t.files {
		slices.SortFunc(files, func(a, b partFile) int {
			return cmp.Or(cmp.Compare(a.lineage, b.lineage), cmp.Compare(a.attempt, b.attempt), cmp.Compare(a.n, b.n), cmp.Compare(a.subtask, b.subtask), cmp.Compare(a.seq, b.seq))
		})
	}
	return err
}

// walked reports whether a step of a walk came to a file. What is not there is no trouble:
// the sink has not begun, or somebody removed an empty directory since it was listed. Hidden
// directories are those of this sink and of others below its path.
func walked(ctx context.Context, d fs.DirEntry, err error) (file bool, _ error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case d.IsDir() && d.Name() == ".etl":
		return false, filepath.SkipDir
	case d.IsDir():
		return false, context.Cause(ctx)
	}
	return true, nil
}

func (t *fileTarget) compared() string {
	return "partition and contents of each row, and how often it is there"
}

func (t *fileTarget) unordered() string { return "" }
func (t *fileTarget) sortBy(string)     {}

// read reads all rows of a file sink that readers see.
func (f *fileTarget) read(ctx context.Context, c *recounting, t *target) error {
	f.dirs, f.files = nil, nil
	if err := f.list(ctx); err != nil {
		return problem("files", f.rows.spec.Path, "%w", err)
	}
	t.sums = make([]uint64, len(f.dirs))
	lives, total := map[string]bool{}, 0
	for d, files := range f.files {
		next := int64(0)
		for i := range files {
			p := &files[i]
			p.first = next
			err := f.readPart(p, func(value []byte) {
				t.addDocument(value, []kgo.RecordHeader{{Key: partitionHeader, Value: []byte(f.dirs[d])}}, int32(d), next)
				next++
			})
			p.rows = next - p.first
			if err != nil {
				c.r.found(&t.res, 1, Finding{Kind: Altered, Topic: t.topic, Partition: int32(d), Offset: next, Why: fmt.Sprintf("the file cannot be read from here on: %v", err)})
			}
			lives[p.lineage] = true
			if total++; total%64 == 0 {
				c.o.Progress(Progress{"read " + t.topic, t.res.Rows, t.res.Rows})
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
	}
	c.r.RecordsOut += t.res.Rows
	c.r.checked("%s: %s part files in %s directories, each read to its end: %s rows", t.topic, thousands(int64(total)), thousands(int64(len(f.dirs))), thousands(t.res.Rows))
	if len(lives) > 1 {
		c.r.notChecked("%s: the files are of %d lives of the job (lineages), which are counted together", t.topic, len(lives))
	}
	return f.pending(c, t)
}

// pending counts what is not shown yet. What a process leaves that went on after it was
// fenced is never shown, and the sink's next start removes it.
func (t *fileTarget) pending(c *recounting, to *target) error {
	f := t.rows.spec
	home := filepath.Join(globQuote(f.Path), ".etl", globQuote(percent(f.Job, "-_")), globQuote(percent(f.UID, "-_")), "*", "*")
	dirs, err := filepath.Glob(home)
	if err != nil {
		return err
	}
	newest := map[string]int64{} // attempt, by lineage
	for _, dir := range dirs {
		newest[filepath.Dir(dir)] = max(newest[filepath.Dir(dir)], attemptOf(dir))
	}
	names, err := filepath.Glob(filepath.Join(home, "*.pending"))
	if err != nil {
		return err
	}
	waiting := int64(0)
	for _, name := range names {
		dir := filepath.Dir(name)
		if _, err := os.Stat(filepath.Join(dir, "intent")); err == nil || attemptOf(dir) >= newest[filepath.Dir(dir)] {
			waiting++
		}
	}
	if left := int64(len(names)) - waiting; left > 0 {
		c.r.checked("%s: %s hidden files are left of a process that was fenced; nobody sees them, and the next start removes them", to.topic, thousands(left))
	}
	c.r.found(&to.res, waiting, Finding{Kind: Uncommitted, Topic: to.topic, Why: "files that are written and not shown yet"})
	return nil
}

var epochForm = regexp.MustCompile(`^(?:dead-)?(?:open-)?(\d+)-\d+-\d+$`)

// attemptOf returns the attempt in the name of an epoch's directory, 0 for none.
func attemptOf(dir string) (n int64) {
	if m := epochForm.FindStringSubmatch(filepath.Base(dir)); m != nil {
		n, _ = strconv.ParseInt(m[1], 10, 64) // 0 for what no attempt has
	}
	return n
}

var globSpecial = regexp.MustCompile(`[*?\[\\]`)

func globQuote(s string) string { return globSpecial.ReplaceAllString(s, `\$0`) }

// locate puts file and row into a finding.
func (t *fileTarget) locate(f *Finding) {
	if int(f.Partition) >= len(t.files) {
		return
	}
	for _, p := range t.files[f.Partition] {
		if f.Offset >= p.first && f.Offset <= p.first+p.rows {
			f.File, f.Row = filepath.Join(t.rows.spec.Path, p.name), f.Offset-p.first+1
		}
	}
}

// readPart calls emit with every row of a file as a document.
func (t *fileTarget) readPart(p *partFile, emit func(value []byte)) error {
	h, err := os.Open(filepath.Join(t.rows.spec.Path, p.name))
	if err != nil {
		return err
	}
	defer h.Close()
	if strings.HasSuffix(p.name, ".parquet") {
		return readParquet(h, emit)
	}
	r, done, err := unpacked(h, p.name)
	if err != nil {
		return err
	}
	defer done()
	if strings.Contains(filepath.Base(p.name), ".csv") && t.rows.spec.Format == "csv" {
		return t.rows.readCSV(r, emit)
	}
	return readLines(r, emit)
}
