package integration

import (
	"strings"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// withBadRows copies into a table, and what the table refuses into another one.
const withBadRows = common + `  db: { type: postgres, dsn: "${DSN}" }
` + often + `
dead_letter: dead
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
sinks:
  copied: { type: postgres, inputs: [in], connection: db, table: copied, columns: { k: this.k, n: this.n }, strategy: "${STRATEGY}", on_error: dead_letter }
  dead: { type: postgres, connection: db, table: dead, columns: { at: this.offset, code: this.code, value: this.value }, strategy: staged }
`

// Rows that a table refuses do not take their checkpoint with them. Each is a dead letter
// once, across a crash; one that is refused when its checkpoint is published already lies
// in the reject table (P18, P20).
func TestPostgresBadRows(t *testing.T) {
	t.Parallel()
	for strategy, point := range map[string]string{"prepared": "postgres.commit.before:1:kill", "staged": "postgres.merge.merged:1:kill"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
			d.exec("CREATE TABLE copied (k varchar(3) NOT NULL, n int PRIMARY KEY CHECK (n >= 0)); CREATE TABLE dead (at bigint, code text, value text)")
			in := b.Topic(t, 1)
			produce(t, b, in, values(0, `{"k":"a","n":1}`, `{"k":"long","n":2}`, `{"k":"b","n":-1}`, `{"k":"c","n":1}`, `{"k":"d","n":4}`, `{"k":"\u0000","n":5}`, `{"n":6}`, `{"k":"f","n":7}`)...)
			j := newJob(t, b, withBadRows, "IN="+in, "STRATEGY="+strategy, "DSN="+d.admin)
			j.must("sink init", "--apply", "--role", d.role)
			j.set("DSN=" + d.worker)
			j.faulty(point).killed()
			r := j.start().running()
			r.checkpoints(3)
			j.must("stop")
			r.ends(0)
			d.is("SELECT string_agg(k || n, ' ' ORDER BY n) FROM copied", "a1 d4 f7")
			dead, kept := "1:postgres.value 5:postgres.value 6:postgres.value", "2:23514 3:23505"
			if strategy == "prepared" {
				dead, kept = "1:postgres.value 2:postgres.row 3:postgres.row 5:postgres.value 6:postgres.value", "null"
			}
			d.is("SELECT string_agg(at || ':' || code, ' ' ORDER BY at) FROM dead", dead)
			d.is("SELECT string_agg(split_part(source, '@', 2) || ':' || code, ' ' ORDER BY source) FROM etl.reject", kept)
			if strategy == "staged" {
				d.is(`SELECT "row" FROM etl.reject WHERE code = '23514'`, `{"k": "b", "n": -1}`)
			}
			d.settled()
		})
	}
}

// Without a policy a bad row ends the job, names its place and nothing of its contents,
// and loses nothing: who mends the table goes on where it was.
func TestPostgresBadRowEndsTheJob(t *testing.T) {
	t.Parallel()
	text := strings.Replace(strings.Replace(withBadRows, "dead_letter: dead\n", "", 1), ", on_error: dead_letter", "", 1)
	text = text[:strings.Index(text, "  dead:")]
	for strategy, cause := range map[string]string{"prepared": "postgres.row", "staged": "postgres.row_after_publish"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
			d.exec("CREATE TABLE copied (k text, n int CONSTRAINT positive CHECK (n >= 0))")
			in := b.Topic(t, 1)
			produce(t, b, in, values(0, `{"k":"a","n":1}`, `{"k":"b","n":-726155}`, `{"k":"c","n":3}`)...)
			j := newJob(t, b, text, "IN="+in, "STRATEGY="+strategy, "DSN="+d.admin)
			j.must("sink init", "--apply", "--role", d.role)
			j.set("DSN=" + d.worker)
			for range 2 {
				r := j.start()
				r.ends(1)
				l := r.message("the job failed", 1)
				if l.str("cause") != cause || !strings.Contains(l.text, "positive") || strategy == "prepared" && !strings.Contains(l.text, in+"/0@1") {
					t.Errorf("it failed with %s", l.text)
				}
				if strings.Contains(r.log(1000), "726155") {
					t.Errorf("the log has the contents of a row:\n%s", r.log(1000))
				}
				d.is("SELECT count(*) FROM copied", "0")
			}
			d.exec("ALTER TABLE copied DROP CONSTRAINT positive")
			r := j.start().running()
			d.wants("SELECT string_agg(k || n, ' ' ORDER BY k) FROM copied", "a1 b-726155 c3")
			j.must("stop")
			r.ends(0)
			d.is("SELECT count(*) FROM copied", "3")
			d.settled()
		})
	}
}
