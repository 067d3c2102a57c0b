package integration

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// storing writes the dead letters of each component to another store: rows of a prepared
// transaction, rows of a staging table, rows of the log, and lines of files.
const storing = common + `  db: { type: postgres, dsn: "${DSN}" }
` + often + `
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], on_error: dead_letter, dead_letter: prepared }
transforms:
  more: { type: map, inputs: [in], on_error: dead_letter, dead_letter: staged, map: { n: this.n, next: this.n + 1, pad: this.pad } }
  which: { type: route, inputs: [more], on_error: dead_letter, dead_letter: logged, route: { even: this.n % 2 == 0, odd: this.n % 2 == 1 } }
sinks:
  even: { type: kafka, connection: main, inputs: [which.even], topic: "${EVEN}", on_error: dead_letter, dead_letter: lines }
  odd: { type: kafka, connection: main, inputs: [which.odd], topic: "${ODD}", on_error: dead_letter, dead_letter: lines }
  prepared: { type: postgres, connection: db, table: prepared, strategy: prepared, columns: { ` + letterColumns + ` } }
  staged: { type: postgres, connection: db, table: staged, strategy: staged, mode: upsert, key: [topic, part, at, "by"], columns: { ` + letterColumns + ` } }
  logged: { type: postgres, connection: db, table: logged, delivery: wal, columns: { letter: this, code: this.code } }
  lines: { type: file, path: "${OUT}", partition_by: { by: this.component }, compression: gzip, roll: { size: 1KiB } }
`

const letterColumns = `topic: this.topic, part: this.partition, at: this.offset, stamp: this.timestamp, by: this.component, code: this.code, msg: this.message,
    made: this.made, k: this.key, kb: this.key_base64, v: this.value, vb: this.value_base64, hs: this.headers`

// letterTables are those of storing. Their types differ where that may be.
const letterTables = `
CREATE TABLE prepared (seen timestamptz DEFAULT now(), topic text, part int, at bigint, stamp timestamptz, by text, code varchar(99), msg text, made bool, k text, kb text, v text, vb text, hs json);
CREATE TABLE staged (topic text, part numeric, at int, stamp bigint, by text, code text, msg text, made bool, k text, kb text, v text, vb text, hs jsonb, PRIMARY KEY (topic, part, at, by));
CREATE TABLE logged (letter jsonb, code text)`

// storeOf says which sink has the letters of a component.
var storeOf = map[string]string{"in": "prepared", "more": "staged", "which": "logged", "even": "lines", "odd": "lines"}

// Dead letters in tables and files are listed, shown and replayed as those in a topic:
// once committed, each exactly once, although job and replay are killed.
func TestDeadLetterStores(t *testing.T) {
	t.Parallel()
	b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
	d.exec(letterTables)
	in, even, odd := b.Topic(t, 3), b.Topic(t, 2, "max.message.bytes=2000"), b.Topic(t, 2, "max.message.bytes=2000")
	j := newJob(t, b, storing, "IN="+in, "EVEN="+even, "ODD="+odd, "OUT="+filepath.Join(t.TempDir(), "out"), "DSN="+d.admin)
	j.must("sink init", "--apply", "--role", d.role)
	d.exec("GRANT SELECT ON prepared, staged, logged TO " + d.role)
	j.set("DSN=" + d.worker)
	n := 0
	more := func() {
		var recs []*kgo.Record
		for range 400 {
			r, _, _ := mixed(n)
			recs, n = append(recs, r), n+1
		}
		produce(t, b, in, recs...)
	}
	more()
	j.faulty("postgres.prepared:1:kill").killed()
	for sink := range letterStores() {
		if ls := j.letters(sink); len(ls) > 0 {
			t.Errorf("%s lists %d letters before any checkpoint", sink, len(ls))
		}
	}
	for _, plan := range []string{"checkpoint.published:3:kill", "file.commit.moved:2:kill", "recover.committed:1:kill"} {
		more()
		j.faulty(plan).killed()
	}
	r := j.start().running()
	more()
	eventually(t, "every letter is there", func() bool {
		for sink := range letterStores() {
			if len(j.letters(sink)) < lettersOf(sink, n) {
				return false
			}
		}
		return true
	})
	j.must("stop")
	r.ends(0)
	// Rows that say the same are one letter, and rows of others are none.
	d.exec("INSERT INTO prepared SELECT * FROM prepared LIMIT 7; INSERT INTO logged SELECT * FROM logged LIMIT 7; INSERT INTO logged (letter) VALUES ('{}'), ('[1]'), (NULL); INSERT INTO prepared (k) VALUES ('x')")
	for sink := range letterStores() {
		j.listed(in, sink, n)
		replayed(t, b, j, n, sink, func(by string) bool { return storeOf[by] == sink })
	}
}

func letterStores() map[string]bool {
	out := map[string]bool{}
	for _, sink := range storeOf {
		out[sink] = true
	}
	return out
}

// lettersOf counts those that a sink must have of n records.
func lettersOf(sink string, n int) (letters int) {
	for i := range n {
		if _, by, _ := mixed(i); storeOf[by] == sink {
			letters++
		}
	}
	return letters
}

// aLetter is what dlq ls says of one, and dlq show.
type aLetter struct {
	At, Topic, Component, Code, Message string
	Partition, Offset                   int
	Value                               string
	ValueBase64                         *string `json:"value_base64"`
}

// letters lists those of a sink.
func (j *job) letters(sink string) []aLetter {
	j.t.Helper()
	a := j.etl("dlq ls", "--sink", sink, "--limit", "10000")
	if sink == "lines" && a.Error.Code == "file.path" { // before its first checkpoint
		return nil
	}
	var out struct{ Letters []aLetter }
	if err := json.Unmarshal(a.Result, &out); err != nil || !a.OK {
		j.t.Fatalf("%v\n%s", err, a.All)
	}
	return out.Letters
}

// listed demands that each bad record of n is a letter of its sink, once, under a place
// of its own, where it is shown with its payload.
func (j *job) listed(in, sink string, n int) {
	j.t.Helper()
	places, times := map[string]bool{}, map[int]int{}
	var last aLetter
	for _, l := range j.letters(sink) {
		i := 3*l.Offset + l.Partition
		_, by, code := mixed(i)
		if l.Topic != in || l.Component != by || l.Code != code || storeOf[by] != sink || l.Message == "" || places[l.At] {
			j.t.Errorf("%s lists %+v, want one of %s %s", sink, l, by, code)
		}
		places[l.At] = true
		times[i]++
		last = l
	}
	if len(times) != lettersOf(sink, n) || len(times) != len(places) {
		j.t.Errorf("%s lists %d letters of %d records, want %d", sink, len(places), len(times), lettersOf(sink, n))
	}
	var one aLetter
	if err := json.Unmarshal(j.must("dlq show", last.At, "--sink", sink).Result, &one); err != nil {
		j.t.Fatal(err)
	}
	if from, _, _ := mixed(3*last.Offset + last.Partition); one.Value != string(from.Value) || one.Component != last.Component || one.Offset != last.Offset {
		j.t.Errorf("%s shows %+v", last.At, one)
	}
	if a := j.etl("dlq show", strings.Repeat("0", 16), "--sink", sink); a.Code == 0 {
		j.t.Errorf("a place without letter is shown: %s", a.All)
	}
}
