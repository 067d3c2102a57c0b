package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// fanningOut routes records to sinks of three kinds, one output to two of them, and
// writes dead letters to files.
const fanningOut = common + `  db: { type: postgres, dsn: "${DSN}" }
` + often + `
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], on_error: dead_letter, dead_letter: dead }
transforms:
  which: { type: route, inputs: [in], route: { third: this.n % 3 == 0 }, default: others }
sinks:
  rows: { type: postgres, inputs: [which.third], connection: db, table: copied, columns: { k: this.k, n: this.n }, strategy: staged }
  copy: { type: kafka, inputs: [which.third], connection: main, topic: "${COPY}" }
  lines: { type: file, inputs: [which.others], path: "${DIR}/lines" }
  dead: { type: file, path: "${DIR}/dead" }
`

// Sinks of different kinds in one pipeline, killed again and again: each of them has
// each of its records once, and the checkpoints they share are the same.
func TestFanOut(t *testing.T) {
	t.Parallel()
	b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
	d.exec("CREATE TABLE copied (k text, n int)")
	in, copied, dir := b.Topic(t, 3), b.Topic(t, 2), filepath.Join(t.TempDir(), "out")
	j := newJob(t, b, fanningOut, "IN="+in, "COPY="+copied, "DIR="+dir, "DSN="+d.admin)
	j.must("sink init", "--apply", "--role", d.role)
	j.set("DSN=" + d.worker)
	n := 0
	more := func() {
		recs := numbered(n, n+60, 7, 3)
		for i, r := range recs {
			if isBad(n + i) {
				r.Value = fmt.Appendf(nil, "no document %d", n+i)
			}
		}
		n += len(recs)
		produce(t, b, in, recs...)
	}
	for _, plan := range []string{"checkpoint.published:3:kill", "recover.committed:1:kill", "postgres.merge.merged:2:kill", "task.finish.after:9:kill"} {
		r := j.faulty(plan)
		eventually(t, "the process dies", func() bool {
			more()
			return !r.alive()
		})
		r.killed()
	}
	more()
	r := j.start().running()
	counts := map[string]int{}
	for i := range n {
		for _, sink := range sinksOf(i) {
			counts[sink]++
		}
	}
	d.wants("SELECT count(*) >= "+fmt.Sprint(counts["rows"])+" FROM copied", "true")
	eventually(t, "all is written", func() bool {
		return len(texts(t, b, copied)) >= counts["copy"] && len(linesBelow(t, dir+"/lines")) >= counts["lines"] && len(linesBelow(t, dir+"/dead")) >= counts["dead"]
	})
	j.must("stop")
	r.ends(0)
	free(t, b, copied)

	times := fanned(t, b, d, in, copied, dir)
	for i := range n {
		for _, sink := range sinksOf(i) {
			if k := times[fmt.Sprint(sink, " ", i)]; k != 1 {
				t.Errorf("record %d is in %s %d times", i, sink, k)
			}
			delete(times, fmt.Sprint(sink, " ", i))
		}
	}
	if len(times) > 0 {
		t.Errorf("in the sinks are also %v", times)
	}
	j.set("DSN=" + d.admin) // the job's role may not read its table
	j.finished()
	d.tampered(j, "copied", "n = 30", "n = -30")
}

// tampered removes, doubles and alters a row of a table, which etl verify has to notice.
func (d *database) tampered(j *job, table, where, set string) {
	d.t.Helper()
	d.exec("CREATE TABLE intact AS SELECT * FROM " + table)
	for sql, want := range map[string]string{
		"DELETE FROM " + table + " WHERE " + where:                             "missing 1, duplicated 0, altered 0",
		"INSERT INTO " + table + " SELECT * FROM " + table + " WHERE " + where: "missing 0, duplicated 1, altered 0",
		"UPDATE " + table + " SET " + set + " WHERE " + where:                  "missing 0, duplicated 0, altered 1",
	} {
		d.exec(sql)
		j.refused(j.etl("verify", "--finished", "--settle", "0s"), 1, "verify.mismatch", want)
		d.exec("TRUNCATE " + table + "; INSERT INTO " + table + " SELECT * FROM intact")
	}
	j.finished()
}

// sinksOf are the sinks that have record n.
func sinksOf(n int) []string {
	switch {
	case isBad(n):
		return []string{"dead"}
	case n%3 == 0:
		return []string{"rows", "copy"}
	}
	return []string{"lines"}
}

// fanned counts what is in the sinks, by sink and number.
func fanned(t *testing.T, b *kafkatest.Broker, d *database, in, copied, dir string) map[string]int {
	t.Helper()
	times := map[string]int{}
	for i, k := range d.numbers("SELECT n, count(*) FROM copied GROUP BY n") {
		times[fmt.Sprint("rows ", i)] = k
	}
	for _, recs := range committed(t, b, copied) {
		for _, rec := range recs {
			times[fmt.Sprint("copy ", parse(t, rec).N)]++
		}
	}
	for _, line := range linesBelow(t, dir+"/lines") {
		times[fmt.Sprint("lines ", parse(t, &kgo.Record{Value: []byte(line)}).N)]++
	}
	for _, line := range linesBelow(t, dir+"/dead") {
		var l struct{ Topic, Component, Code, Value string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Topic != in || l.Component != "in" || l.Code != "json.syntax" {
			t.Fatalf("%s: %v", line, err)
		}
		times["dead "+strings.TrimPrefix(l.Value, "no document ")]++
	}
	return times
}

func isBad(n int) bool { return n%10 == 7 }

// linesBelow are the lines of the finished files of a folder; it may not be there yet.
func linesBelow(t testing.TB, dir string) (lines []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimRight(string(text), "\n"), "\n")...)
	}
	return lines
}
