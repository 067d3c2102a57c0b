package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
	"etl/sink/twophase/file"
)

// archiving writes all formats, partitioned and not.
const archiving = common + often + `
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
transforms:
  counts: { type: aggregate, inputs: [in], key: this.k, emit: on_change, aggregates: { c: count, last: { op: max, of: this.n } } }
sinks:
  lines:
    type: file
    inputs: [in]
    path: "${OUT}"
    partition_by: { k: this.k }
    compression: zstd
    roll: { size: 1KiB }
  table:
    type: file
    inputs: [in]
    path: "${OUT}"
    format: parquet
    compression: gzip
    columns:
      k: { value: this.k, type: string }
      n: { value: this.n, type: int64 }
      at: meta.offset
  sheet: { type: file, inputs: [counts], path: "${OUT}/counts", format: csv, columns: { k: this.k, c: this.c } }
`

// Exactly once into files: the process is killed at each point of the sink's protocol.
func TestFilesKilled(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), filepath.Join(t.TempDir(), "out")
	j := newJob(t, b, archiving, "IN="+in, "OUT="+out)
	stop := feed(t, b, in, 7, 3)
	for i, point := range slices.Sorted(maps.Keys(file.Points)) {
		nth := 3 + 2*i
		if strings.HasPrefix(point, "file.recover") || strings.HasPrefix(point, "file.fence") {
			nth = 1 // of every restart
		}
		switch point {
		case "file.fence.named":
			j.faulty("file.closed:2:kill").killed() // so that there is something to fence
		case "file.recover.probed":
			j.faulty("file.commit.before:2:kill").killed() // and to look at
		}
		j.faulty(point + ":" + strconv.Itoa(nth) + ":kill").killed()
	}
	j.start().checkpoints(3)
	n := stop()
	j.caughtUp()
	j.must("stop")
	j.finished()

	everyNumberOnce(t, linesIn(t, out, ".jsonl.zst"), n, 3)
	everyNumberOnce(t, tablesIn(t, out), n, 3)
	if left := namesIn(t, out, ".pending"); len(left) > 0 {
		t.Errorf("after the end there are still %q", left)
	}
}

// A consumer that takes finished files away, whenever it likes, has every row once in
// the end, although the job is killed in the middle of its commits.
func TestFilesTakenAway(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out, taken := b.Topic(t, 3), filepath.Join(t.TempDir(), "out"), t.TempDir()
	j := newJob(t, b, common+often+`
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
sinks:
  lines: { type: file, inputs: [in], path: "${OUT}", roll: { size: 512B } }
`, "IN="+in, "OUT="+out)
	take := func() {
		for _, name := range namesIn(t, out, ".jsonl") {
			if err := os.Rename(name, filepath.Join(taken, filepath.Base(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := feed(t, b, in, 7, 3)
	for i := range 4 {
		j.faulty(fmt.Sprintf("file.commit.moved:%d:kill", 5+3*i)).killed()
		take()
	}
	j.start().checkpoints(2)
	take()
	n := stop()
	eventually(t, "all rows are there", func() bool {
		take()
		rows := 0
		for _, recs := range linesIn(t, taken, ".jsonl") {
			rows += len(recs)
		}
		return rows >= n
	})
	j.must("stop")
	take()
	everyNumberOnce(t, linesIn(t, taken, ".jsonl"), n, 3)
}

// What a start refuses, it refuses before it changes anything.
func TestFilesRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), filepath.Join(t.TempDir(), "out")
	text := common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], end: latest }
sinks:
  lines: { type: file, inputs: [in], path: "${OUT}" }
`
	produce(t, b, in, numbered(0, 30, 7, 3)...)
	j := newJob(t, b, text, "IN="+in, "OUT="+out)
	j.must("run")
	j.finished()
	before := namesIn(t, out, "")

	again := *j // another life of the name: its checkpoints are gone
	again.dir = t.TempDir()
	again.refused(again.etl("run"), 4, "file.foreign_lineage", out)
	if after := namesIn(t, out, ".jsonl"); !slices.Equal(after, slices.DeleteFunc(before, func(s string) bool { return !strings.HasSuffix(s, ".jsonl") })) {
		t.Errorf("a refused start changed files: %q", after)
	}
	again.must("run", "--accept-foreign-lineage")
	rows := 0
	for _, recs := range linesIn(t, out, ".jsonl") {
		rows += len(recs)
	}
	if rows != 60 {
		t.Errorf("two lives of 30 rows each have written %d", rows)
	}

	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := newJob(t, b, text, "IN="+in, "OUT="+blocked)
	k.refused(k.etl("run"), 3, "file.unusable")
}

// A row that does not fit its columns is left out or ends the job, as on_error says, and
// no file holds a part of it.
func TestFilesBadRows(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), filepath.Join(t.TempDir(), "out")
	produce(t, b, in, values(0, `{"k":"a","n":0}`, `{"k":"b","n":1234.5}`, `{"k":"c","n":2}`, `{"k":4,"n":3}`, `{"k":null,"n":4}`)...)
	j := newJob(t, b, common+often+`
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], end: latest }
sinks:
  table:
    type: file
    inputs: [in]
    path: "${OUT}"
    format: parquet
    on_error: skip
    columns: { k: { value: this.k, type: string }, n: { value: this.n, type: int64 } }
`, "IN="+in, "OUT="+out)
	j.must("run")
	j.finished()
	j.deadLettersToFiles(b, in)
	var got []int
	for _, recs := range tablesIn(t, out) {
		for _, r := range recs {
			got = append(got, parse(t, r).N)
		}
	}
	if !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("the file has %v", got)
	}
	fails := newJob(t, b, strings.Replace(string(must(os.ReadFile(j.file))), "on_error: skip", "on_error: fail", 1), "IN="+in, "OUT="+filepath.Join(t.TempDir(), "out"))
	if a := fails.etl("run"); a.Code != 1 || a.Error.Code != "file.row" || !strings.Contains(a.Error.Message, "offset 1") || strings.Contains(a.All, "1234.5") {
		t.Errorf("exit %d: %s", a.Code, a.All)
	}
}

// deadLettersToFiles runs the pipeline of TestFilesBadRows once more, with the bad rows
// going to files of their own.
func (j *job) deadLettersToFiles(b *kafkatest.Broker, in string) {
	j.t.Helper()
	out, letters := filepath.Join(j.t.TempDir(), "out"), filepath.Join(j.t.TempDir(), "letters")
	text := strings.Replace(string(must(os.ReadFile(j.file))), "on_error: skip", "on_error: dead_letter\n    dead_letter: rejects", 1)
	d := newJob(j.t, b, text+`
  rejects: { type: file, path: "${LETTERS}", partition_by: { code: this.code } }
`, "IN="+in, "OUT="+out, "LETTERS="+letters)
	d.must("run")
	var got []string
	for _, name := range namesIn(j.t.(*testing.T), letters, ".jsonl") {
		if filepath.Base(filepath.Dir(name)) == "code=file.row" {
			got = append(got, strings.Split(strings.TrimSpace(string(must(os.ReadFile(name)))), "\n")...)
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], `"offset":1,`) || !strings.Contains(got[1], `"offset":3,`) {
		j.t.Errorf("the dead letters are %q", got)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// namesIn are the files below a directory whose names end so, hidden ones included.
func namesIn(t *testing.T, dir, end string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // moved or removed meanwhile
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(name, end) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// linesIn are the rows of JSON lines below a directory, those of each directory in the
// order of the files' names; zstd files are unpacked.
func linesIn(t *testing.T, dir, end string) map[int32][]*kgo.Record {
	t.Helper()
	return rowsIn(t, namesIn(t, dir, end), func(name string, emit func([]byte)) {
		in := bufio.NewScanner(opened(t, name))
		for in.Scan() {
			emit(slices.Clone(in.Bytes()))
		}
		if err := in.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	})
}

// opened is the text of a file.
func opened(t *testing.T, name string) io.Reader {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if !strings.HasSuffix(name, ".zst") {
		return f
	}
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}

// tablesIn are the rows of Parquet files.
func tablesIn(t *testing.T, dir string) map[int32][]*kgo.Record {
	t.Helper()
	type table struct {
		K  *string `parquet:"k,optional" json:"k"`
		N  *int64  `parquet:"n,optional" json:"n"`
		At *int64  `parquet:"at,optional" json:"at"`
	}
	return rowsIn(t, namesIn(t, dir, ".parquet"), func(name string, emit func([]byte)) {
		rows, err := parquet.ReadFile[table](name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range rows {
			emit(must(json.Marshal(r)))
		}
	})
}

// rowsIn reads files in the order of attempt, checkpoint, subtask and part. Each
// directory is a partition.
func rowsIn(t *testing.T, names []string, read func(name string, emit func([]byte))) map[int32][]*kgo.Record {
	t.Helper()
	numbers := func(name string) (out []int) {
		parts := strings.Split(filepath.Base(name), "-")
		for _, i := range []int{4, 2, 3, 1} {
			number, _, _ := strings.Cut(parts[len(parts)-i], ".")
			out = append(out, must(strconv.Atoi(number)))
		}
		return out
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	dirs, out := map[string]int32{}, map[int32][]*kgo.Record{}
	for _, name := range names {
		dir := filepath.Dir(name)
		if _, ok := dirs[dir]; !ok {
			dirs[dir] = int32(len(dirs))
		}
		p := dirs[dir]
		read(name, func(row []byte) {
			out[p] = append(out[p], &kgo.Record{Partition: p, Offset: int64(len(out[p])), Value: row})
		})
	}
	return out
}
