package verify

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// order is a row as the tests write it, by other means than the sink has.
type order struct {
	ID    *int64  `parquet:"id,optional"`
	User  *string `parquet:"user,optional"`
	Price *int64  `parquet:"price,optional,decimal(2:12)"`
	Note  *string `parquet:"note,optional"`
	At    *int64  `parquet:"at,optional,timestamp(microsecond)"`
}

func (o *order) user() string { return *o.User }

func orderOf(i int) *order {
	id, user, price, at := int64(9007199254740993+i), fmt.Sprintf("u%d", i%3), int64(100*i+5), int64(i)*1000
	o := &order{ID: &id, User: &user, Price: &price, At: &at}
	if i%4 > 0 {
		note := []string{"", "a \"quoted\", note\nof two lines", "", "plain"}[i%4]
		o.Note = &note
	}
	return o
}

// input is the record that gives the row.
func (o *order) input() []byte {
	note := "null"
	if o.Note != nil {
		note = fmt.Sprintf("%q", *o.Note)
	}
	return fmt.Appendf(nil, `{"id":%d,"user":%q,"price":%d.%02d,"note":%s,"at":%d}`, *o.ID, *o.User, *o.Price/100, *o.Price%100, note, *o.At/1000)
}

// write writes rows in the format that a name says.
func write(t *testing.T, name string, rows []*order) {
	t.Helper()
	var b bytes.Buffer
	switch {
	case strings.Contains(name, ".jsonl"):
		for _, o := range rows {
			b.Write(append(o.input(), '\n'))
		}
	case strings.Contains(name, ".csv"):
		writeCSV(&b, rows)
	default:
		w := parquet.NewGenericWriter[*order](&b, parquet.MaxRowsPerRowGroup(7))
		_, err := w.Write(rows)
		must(t, err)
		must(t, w.Close())
	}
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, packed(t, name, b.Bytes()), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeCSV(b *bytes.Buffer, rows []*order) {
	b.WriteString("id,user,price,note,at\n")
	for _, o := range rows {
		note := ""
		if o.Note != nil {
			var q bytes.Buffer
			w := csv.NewWriter(&q)
			_ = w.Write([]string{*o.Note + ","}) // always in quotes
			w.Flush()
			note = strings.TrimSuffix(strings.TrimSuffix(q.String(), "\n"), `,"`) + `"`
		}
		fmt.Fprintf(b, "%d,%s,%d.%02d,%s,%d\n", *o.ID, *o.User, *o.Price/100, *o.Price%100, note, *o.At/1000)
	}
}

func packed(t *testing.T, name string, text []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch {
	case strings.HasSuffix(name, ".gz"):
		w = gzip.NewWriter(&b)
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewWriter(&b)
		must(t, err)
		w = z
	default:
		return text
	}
	_, err := w.Write(text)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func filesSpec(dir, format string) Spec {
	f := &FileSink{Path: dir, Job: "shop", UID: "a.b", Format: format, PartitionBy: []Field{{"user", "this.user"}}}
	if format != "json" {
		f.Columns = []FileColumn{{"id", "this.id", "int64"}, {"user", "this.user", "string"}, {"price", "this.price", "decimal(12, 2)"},
			{"note", "this.note", "string"}, {"at", "this.at", "timestamp"}}
	}
	return Spec{Name: "shop", Sources: []Source{{Name: "in", Conn: kafkaconn.Config{}, Topics: []string{inTopic}}},
		Sinks: []Sink{{Name: "files", Inputs: []string{"in"}, File: f, Encode: "json"}}}
}

// partName is the name of a part file.
func partName(dir, user string, n, seq int, ext string) string {
	return filepath.Join(dir, "user="+user, fmt.Sprintf("shop.a%%2Eb.0a1b2c3d-00001-0000-%08d-%04d%s", n, seq, ext))
}

// judgeFiles recounts two source partitions against a directory.
func judgeFiles(t *testing.T, spec Spec, o Options, rows int) *Result {
	t.Helper()
	o.withDefaults()
	c, err := newRecounting(&spec, &o)
	must(t, err)
	must(t, c.readTarget(t.Context(), c.targets[0]))
	for i := range rows {
		c.r.RecordsIn++
		c.enter(c.order[0], &stream.Record{Topic: inTopic, Partition: int32(i % 2), Offset: int64(i / 2), Value: orderOf(i).input(), Pos: -1})
	}
	return c.conclude()
}

// writeAll writes rows 0 to n as two checkpoints would.
func writeAll(t *testing.T, dir, ext string, n int) {
	for cp, from := range []int{0, n / 2} {
		byUser := map[string][]*order{}
		for i := from; i < (cp+1)*n/2; i++ {
			o := orderOf(i)
			byUser[o.user()] = append(byUser[o.user()], o)
		}
		for user, rows := range byUser {
			write(t, partName(dir, user, cp+1, 1, ext), rows)
		}
	}
}

const filesRows = 60

// fileFaults are what somebody may do to files, and what it is called.
var fileFaults = map[string]struct {
	do   func(t *testing.T, dir, ext string)
	want Counts
}{
	"a file is gone": {func(t *testing.T, dir, ext string) { must(t, os.Remove(partName(dir, "u1", 1, 1, ext))) }, Counts{Missing: 10}},
	"the newest files are gone": {func(t *testing.T, dir, ext string) {
		for _, u := range []string{"u0", "u1", "u2"} {
			must(t, os.Remove(partName(dir, u, 2, 1, ext)))
		}
	}, Counts{Behind: 30}},
	"a file is there twice": {func(t *testing.T, dir, ext string) {
		b, err := os.ReadFile(partName(dir, "u2", 1, 1, ext))
		must(t, err)
		must(t, os.WriteFile(partName(dir, "u2", 1, 2, ext), b, 0o600))
	}, Counts{Duplicated: 10}},
	"a row is altered": {func(t *testing.T, dir, ext string) { rewrite(t, dir, ext, func(rows []*order) { *rows[3].Price++ }) }, Counts{Altered: 1}},
	"null becomes empty": {func(t *testing.T, dir, ext string) {
		rewrite(t, dir, ext, func(rows []*order) {
			empty := ""
			rows[slices.IndexFunc(rows, func(o *order) bool { return o.Note == nil })].Note = &empty
		})
	}, Counts{Altered: 1}},
	"two rows change places": {func(t *testing.T, dir, ext string) {
		rewrite(t, dir, ext, func(rows []*order) { rows[4], rows[6] = rows[6], rows[4] })
	}, Counts{OutOfOrder: 1}},
	"the checkpoints change places": {func(t *testing.T, dir, ext string) {
		a, b := partName(dir, "u0", 1, 1, ext), partName(dir, "u0", 2, 1, ext)
		must(t, os.Rename(a, a+".x"))
		must(t, os.Rename(b, a))
		must(t, os.Rename(a+".x", b))
	}, Counts{OutOfOrder: 2}},
	"a file lies in another partition": {func(t *testing.T, dir, ext string) {
		must(t, os.Rename(partName(dir, "u1", 1, 1, ext), partName(dir, "u2", 1, 7, ext)))
	}, Counts{Altered: 10}},
}

// rewrite changes rows of a file.
func rewrite(t *testing.T, dir, ext string, change func([]*order)) {
	var rows []*order
	for i := 0; i < filesRows/2; i += 3 {
		rows = append(rows, orderOf(i))
	}
	change(rows)
	write(t, partName(dir, "u0", 1, 1, ext), rows)
}

func TestFiles(t *testing.T) {
	for ext, format := range map[string]string{".jsonl": "json", ".jsonl.gz": "json", ".csv": "csv", ".csv.zst": "csv", ".parquet": "parquet"} {
		dir := t.TempDir()
		spec := filesSpec(dir, format)
		writeAll(t, dir, ext, filesRows)
		must(t, os.MkdirAll(filepath.Join(dir, ".etl", "x"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "user=u0", "somebody-else"+ext), []byte("x"), 0o600))
		r := judgeFiles(t, spec, Options{Finished: true}, filesRows)
		if !r.OK || r.RecordsOut != filesRows || len(r.NotChecked) > 0 {
			t.Errorf("%s: %s", ext, describe(r))
		}
	}
}

func TestFaultsInFiles(t *testing.T) {
	for name, f := range fileFaults {
		for ext, format := range map[string]string{".jsonl.zst": "json", ".csv": "csv", ".parquet": "parquet"} {
			dir := t.TempDir()
			spec := filesSpec(dir, format)
			writeAll(t, dir, ext, filesRows)
			f.do(t, dir, ext)
			r := judgeFiles(t, spec, Options{Finished: true}, filesRows)
			if r.OK || r.Counts != f.want {
				t.Errorf("%s, %s: %s", name, ext, describe(r))
			}
			if f.want.Missing+f.want.Behind == 0 && (len(r.Examples) == 0 || r.Examples[0].File == "" || r.Examples[0].Row == 0) {
				t.Errorf("%s, %s: the finding names no file: %+v", name, ext, r.Examples)
			}
		}
	}
}

// A file that is cut off is no end of the recount.
func TestCutFile(t *testing.T) {
	for ext, format := range map[string]string{".jsonl": "json", ".jsonl.gz": "json", ".csv": "csv", ".parquet": "parquet"} {
		dir := t.TempDir()
		writeAll(t, dir, ext, filesRows)
		name := partName(dir, "u0", 1, 1, ext)
		b, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(name, b[:len(b)-5], 0o600))
		if r := judgeFiles(t, filesSpec(dir, format), Options{}, filesRows); r.OK || r.Altered == 0 {
			t.Errorf("%s: %s", ext, describe(r))
		}
	}
}

// What is written and not shown is uncommitted: a fault once the job has ended.
func TestPendingFiles(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, ".jsonl", filesRows)
	write(t, filepath.Join(dir, ".etl/shop/a%2Eb/4f0c/1-0-3/000001.pending"), nil)
	if r := judgeFiles(t, filesSpec(dir, "json"), Options{}, filesRows); !r.OK || r.Uncommitted != 1 {
		t.Error(describe(r))
	}
	if r := judgeFiles(t, filesSpec(dir, "json"), Options{Finished: true}, filesRows); r.OK {
		t.Error(describe(r))
	}
}

// A process that was stopped, fenced, and went on leaves hidden files, which nobody will ever
// see: that is no fault, and hides none.
func TestFilesOfAFencedProcess(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, ".jsonl", filesRows)
	epoch := func(name string) { write(t, filepath.Join(dir, ".etl/shop/a%2Eb/4f0c", name), nil) }
	epoch("2-0-1/intent") // of its successor
	for _, left := range []string{"open-1-0-4", "open-1-1-3", "1-0-3", "dead-open-1-1-2"} {
		epoch(left + "/000001.pending")
	}
	if r := judgeFiles(t, filesSpec(dir, "json"), Options{Finished: true}, filesRows); !r.OK || r.Uncommitted != 0 || !strings.Contains(strings.Join(r.Checked, " "), "4 hidden files") {
		t.Error(describe(r))
	}
	for i, waits := range []string{"open-2-0-7/000001.pending", "2-1-6/000001.pending", "1-0-3/intent"} { // what is decided is to be shown, whoever wrote it
		epoch(waits)
		if r := judgeFiles(t, filesSpec(dir, "json"), Options{Finished: true}, filesRows); r.OK || r.Uncommitted != int64(i+1) {
			t.Errorf("with %s: %s", waits, describe(r))
		}
	}
}

// A recount beside a running job meets directories that go while they are read: those of
// epochs, also of other sinks below its path, and empty ones that a reader of the files
// removes.
func TestDirectoriesThatGo(t *testing.T) {
	gone := &fs.PathError{Op: "readdirent", Path: "x", Err: fs.ErrNotExist}
	if file, err := walked(t.Context(), nil, gone); file || err != nil {
		t.Errorf("file %v, %v", file, err)
	}
	broken := &fs.PathError{Op: "readdirent", Path: "x", Err: fs.ErrPermission}
	if file, err := walked(t.Context(), nil, broken); file || !errors.Is(err, broken) {
		t.Errorf("file %v, %v", file, err)
	}
	dir := t.TempDir()
	writeAll(t, dir, ".jsonl", filesRows)
	part := partName(dir, "u0", 9, 1, ".jsonl")
	write(t, filepath.Join(dir, "below", ".etl", filepath.Base(part)), []*order{orderOf(0)})
	if r := judgeFiles(t, filesSpec(dir, "json"), Options{}, filesRows); !r.OK {
		t.Error(describe(r))
	}
}

// Running results of an aggregate in Parquet and CSV.
func TestCountsInFiles(t *testing.T) {
	for _, format := range []string{"csv", "parquet"} {
		dir := t.TempDir()
		spec := filesSpec(dir, format)
		spec.Transforms = []Transform{{Name: "n", Type: "aggregate", Inputs: []string{"in"}, Key: []string{"this.user"}, Emit: "on_change",
			Aggregates: []Aggregate{{Name: "n", Op: "count"}}}}
		spec.Sinks[0].Inputs = []string{"n"}
		spec.Sinks[0].File.Columns = []FileColumn{{"who", "this.key", "string"}, {"n", "this.n", "int64"}}
		spec.Sinks[0].File.PartitionBy = nil
		type row struct {
			Who *string `parquet:"who,optional"`
			N   *int64  `parquet:"n,optional"`
		}
		var rows []row
		counts := map[string]int64{}
		for i := range filesRows {
			o := orderOf(i)
			counts[o.user()]++
			n := counts[o.user()]
			rows = append(rows, row{o.User, &n})
		}
		put := func(rows []row) {
			name := filepath.Join(dir, "shop.a%2Eb.0a1b2c3d-00001-0000-00000001-0001."+format)
			if format == "csv" {
				text := "who,n\n"
				for _, r := range rows {
					text += fmt.Sprintf("%s,%d\n", *r.Who, *r.N)
				}
				must(t, os.WriteFile(name, []byte(text), 0o600))
				return
			}
			must(t, parquet.WriteFile(name, rows))
		}
		put(rows)
		if r := judgeFiles(t, spec, Options{Finished: true}, filesRows); !r.OK || (format == "csv") != notChecked(r, "do not show the key") {
			t.Errorf("%s: %s", format, describe(r))
		}
		put(append(rows[:10:10], rows[11:]...))
		if r := judgeFiles(t, spec, Options{Finished: true}, filesRows); format == "parquet" && (r.OK || r.Missing != 1) {
			t.Errorf("%s: %s", format, describe(r))
		}
	}
}
