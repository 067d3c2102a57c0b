package torture

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// books are tables as sinks make them, as far as the checkers read them.
const books = `CREATE SCHEMA etl;
	CREATE TABLE etl.marker (job text, sink text, lineage text, subtask int, checkpoint int8, written_at timestamptz DEFAULT clock_timestamp());
	CREATE TABLE etl.staged (x int); CREATE TABLE etl.reject (x int); CREATE TABLE etl.stage_a (x int); CREATE TABLE etl.stage_b (x int);
	INSERT INTO etl.marker VALUES ('j', 's', 'l', 0, 1); INSERT INTO etl.marker VALUES ('j', 's', 'l', 0, 2)`

// Each thing that can be wrong with tables is noticed, by the checker that is there for it,
// and nothing is where nothing is wrong.
func TestTableCheckersNotice(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	m := &maker{kind: Count, seed: 1, keys: 2, spread: true}
	for what, c := range map[string]struct{ sql, checker string }{
		"nothing":                 {"SELECT 1", ""},
		"a copy is missing":       {"DELETE FROM copied WHERE n = 5", Missing},
		"a copy is there twice":   {"INSERT INTO copied SELECT * FROM copied WHERE n = 5", Duplicated},
		"a copy of nothing":       {"INSERT INTO copied VALUES (4001, 'k0', 'x')", Stranger},
		"a copy was changed":      {"UPDATE copied SET x = 'y' WHERE n = 5", Altered},
		"a count is behind":       {"UPDATE counted SET c = c - 1 WHERE k = 'k0'", Missing},
		"a count is ahead":        {"UPDATE counted SET c = c + 1 WHERE k = 'k0'", Duplicated},
		"a sum is another":        {"UPDATE counted SET sum = 0 WHERE k = 'k0'", Counting},
		"a key of nothing":        {"INSERT INTO counted VALUES ('other', 1, 1)", Stranger},
		"a prepared transaction":  {"BEGIN; INSERT INTO etl.staged VALUES (1); PREPARE TRANSACTION 'left'", Leftovers},
		"a staged epoch":          {"INSERT INTO etl.staged VALUES (1)", Leftovers},
		"a staged row":            {"INSERT INTO etl.stage_b VALUES (1)", Leftovers},
		"a rejected row":          {"INSERT INTO etl.reject VALUES (1)", Leftovers},
		"a marker that goes back": {"INSERT INTO etl.marker VALUES ('j', 's', 'l', 0, 1)", Leftovers},
	} {
		t.Run(what, func(t *testing.T) {
			d, err := NewTables(t.Context(), s, Staged, "secret")
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			a := newAudit(&Verdict{}, m, "in", map[int32][]*kgo.Record{}, nil)
			sql := books
			for seq := range int64(8) {
				p := place{0, seq}
				a.input[p] = &origin{Record: m.make(p), at: []int64{seq}}
				sql += fmt.Sprintf("; INSERT INTO copied VALUES (%d, '%s', '%s'); INSERT INTO counted VALUES ('%[2]s', 1, %[1]d) ON CONFLICT (k) DO UPDATE SET c = counted.c + 1, sum = counted.sum + %[1]d",
					p.number(), a.input[p].Key, payload)
			}
			for _, sql := range []string{sql, c.sql} {
				if _, err := d.pool.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			l := &Life{Episode: &Episode{Tables: d, Job: JobConfig{Into: Staged}}, Verdict: a.Verdict, Tally: NewTally()}
			got, err := d.counted(t.Context())
			if err == nil {
				a.stand(got)
				err = a.copied(t.Context(), d, l.Tally)
			}
			if err == nil {
				err = l.checkBooks(t.Context())
			}
			if _, dropped := d.pool.Exec(t.Context(), "ROLLBACK PREPARED 'left'"); what == "a prepared transaction" && dropped != nil {
				t.Error(dropped)
			}
			if err != nil || (c.checker != "") == l.OK() || c.checker != "" && l.Found[c.checker] == 0 {
				t.Errorf("want %q, found %s (%v)", c.checker, l.Verdict, err)
			}
		})
	}
}

// A reader notices what goes back, and what vanishes.
func TestTableWatchNotices(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		then map[string]int64
		back int
	}{
		"forth":   {map[string]int64{"key a": 3, "marker": 8, "key b": 1}, 0},
		"back":    {map[string]int64{"key a": 1, "marker": 7}, 1},
		"missing": {map[string]int64{"key a": 2}, 1},
	} {
		w := &TableWatch{cancel: func() {}, done: make(chan struct{})}
		close(w.done)
		w.look(map[string]int64{"key a": 2, "marker": 7})
		w.look(c.then)
		v := &Verdict{}
		if w.Close(v); v.Found[Reader] != c.back {
			t.Errorf("%s: %s", what, v)
		}
	}
	d := &TableWatch{cancel: func() {}, done: make(chan struct{})}
	close(d.done)
	v := &Verdict{}
	if d.Close(v); v.OK() {
		t.Error("a reader that saw nothing is content")
	}
}
