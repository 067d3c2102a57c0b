package sqltxn

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"etl/expr"
	"etl/internal/pgconn"
	"etl/stream"
)

// The last of a key's rows counts, whatever the rows before it were (P11, P12).
func TestLastRowOfAKeyCounts(t *testing.T) {
	l := newLab(t)
	l.run("CREATE TABLE t (k int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'old'), (2, 'old'), (3, 'old'), (9, 'old')")
	g := l.target("t", UpsertDelete, []string{"v", "k"}, []string{"k"})
	u := func(k int, v string) []any { return []any{k, v} }
	d := func(k int) []any { return []any{k, deleted} }
	epoch := [][]any{u(1, "a"), d(1), u(1, "b"), d(2), u(2, "c"), u(3, "d"), d(3), d(4), u(5, "e")}
	for i := range 1000 {
		epoch = append(epoch, u(6, fmt.Sprint(i)))
	}
	const want = "1=b 2=c 5=e 6=999 9=old"
	sum := "SELECT string_agg(k || '=' || v, ' ' ORDER BY k) FROM t"
	l.must(l.write(g, l.rows(g, epoch...), nil))
	if got := l.text(sum); got != want {
		t.Errorf("direct: %s", got)
	}
	l.run("TRUNCATE t", "INSERT INTO t VALUES (1, 'old'), (2, 'old'), (3, 'old'), (9, 'old')")
	l.throughStage(g, l.rows(g, epoch...))
	if got := l.text(sum); got != want {
		t.Errorf("staged: %s", got)
	}
}

// An epoch larger than its memory: chunks come one after the other, and a key that came in
// several has the row of the last.
func TestEpochInChunks(t *testing.T) {
	for _, mode := range []Mode{Append, Upsert} {
		for _, staged := range []bool{false, true} {
			l := newLab(t)
			key := []string(nil)
			l.run("CREATE TABLE t (k int, v text)")
			if mode == Upsert {
				key = []string{"k"}
				l.run("ALTER TABLE t ADD PRIMARY KEY (k)")
			}
			g := l.target("t", mode, []string{"k", "v"}, key)
			m := NewMemory(stream.SystemFS{}, 1, t.TempDir(), "x")
			rows, row := NewRows(m, mode != Append, false), NewRow(g)
			for i := range 4000 {
				row.Reset()
				row.Value(expr.IntValue(int64(i % 3000)))
				row.Value(expr.StringValue(fmt.Sprintf("%d%100s", i, "")))
				l.must(rows.Add(row, &stream.Record{}))
			}
			if rows.Reduced() || m.Spilled() == 0 {
				t.Fatal("it is one chunk in memory")
			}
			if staged {
				l.throughStage(g, rows)
			} else {
				l.must(l.write(g, rows, nil))
			}
			want := "4000 3000"
			if mode == Upsert {
				want = "3000 3000"
			}
			if got := l.text("SELECT count(*) || ' ' || count(DISTINCT k) FROM t"); got != want {
				t.Errorf("%s staged %v: %s", mode, staged, got)
			}
			if got := l.text("SELECT max(split_part(v, ' ', 1)::int) FROM t WHERE k = 5"); got != "3005" {
				t.Errorf("%s staged %v: key 5 has %s", mode, staged, got)
			}
			rows.Free()
		}
	}
}

// badTable refuses what only a server can refuse.
const badTable = `CREATE TABLE t (k int PRIMARY KEY, v text CHECK (v <> 'check'), u int UNIQUE, p int REFERENCES parent,
	q int REFERENCES parent DEFERRABLE INITIALLY DEFERRED, g varchar(5) GENERATED ALWAYS AS (substr(v, 1, 6)) STORED, n int2 GENERATED ALWAYS AS (u) STORED)`

var badRows = [][]any{
	{1, "ok", 1, nil, nil},
	{2, "check", 2, nil, nil},    // 23514
	{3, "too long", 3, nil, nil}, // 22001, in the generated column
	{4, "ok", 40000, nil, nil},   // 22003, in the other one
	{5, "ok", 1, nil, nil},       // 23505 with row 1
	{6, "ok", 6, 77, nil},        // 23503
	{7, "ok", 7, nil, 77},        // 23503, deferred
	{8, "no", 8, nil, nil},       // P0001, by the trigger
	{9, "ok", 9, 1, 1},
	{10, "ok", 100, nil, nil}, // 23505 with a row that was there
}

const badStates = "23514 22001 22003 23505 23503 23503 P0001 23505"

func badLab(t *testing.T) *lab {
	l := newLab(t)
	l.run("CREATE TABLE parent (i int PRIMARY KEY)", "INSERT INTO parent VALUES (1)", badTable, "INSERT INTO t VALUES (100, 'old', 100)",
		"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v = 'no' THEN RAISE EXCEPTION 'canary %', NEW.v; END IF; RETURN NEW; END $$",
		"CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()")
	return l
}

// Rows that the server refuses are found one by one, and the rest is written.
func TestSift(t *testing.T) {
	for _, mode := range []Mode{Append, Upsert} {
		l := badLab(t)
		g := l.target("t", mode, []string{"k", "v", "u", "p", "q"}, []string{"k"})
		rows := l.rows(g, badRows...)
		err := l.write(g, rows, nil)
		if pgconn.Row(err) == nil {
			t.Fatalf("no row is to blame: %v", err)
		}
		var bad Bad
		l.do(func(ctx context.Context, c *pgconn.Conn) (err error) {
			bad, err = g.Sift(ctx, c, rows, nil, second, nil)
			return err
		})
		rejected, err := bad.Rejects(rows, nil)
		l.must(err)
		var states, offsets []string
		for _, r := range rejected {
			states, offsets = append(states, r.Message), append(offsets, fmt.Sprint(r.Record.Offset))
		}
		for i, want := range strings.Fields(badStates) {
			if i >= len(states) || !strings.Contains(states[i], want) || strings.Contains(states[i], "canary") {
				t.Fatalf("%s: %v, want %s", mode, states, badStates)
			}
		}
		if got := strings.Join(offsets, " "); got != "1 2 3 4 5 6 7 9" {
			t.Errorf("%s: rejected %s", mode, got)
		}
		if got := l.text("SELECT count(*) FROM t"); got != "1" {
			t.Errorf("%s: sifting left %s rows", mode, got)
		}
		l.must(l.write(g, rows, bad))
		if got := l.text("SELECT string_agg(k::text, ' ' ORDER BY k) FROM t"); got != "1 9 100" {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

// A thousand bad rows are no bad rows but a wrong table.
func TestTooManyBadRows(t *testing.T) {
	l := newLab(t)
	l.run("CREATE TABLE t (k int CHECK (k < 0))")
	g := l.target("t", Append, []string{"k"}, nil)
	var epoch [][]any
	for i := range maxBad + 2 {
		epoch = append(epoch, []any{i})
	}
	err := l.p.With(t.Context(), func(c *pgconn.Conn) error {
		_, err := g.Sift(t.Context(), c, l.rows(g, epoch...), nil, second, nil)
		return err
	})
	if stream.CodeOf(err) != "postgres.too_many_bad_rows" {
		t.Error(err)
	}
}

// Rows that the target refuses once their checkpoint is published go to the reject table,
// in the transaction of the marker.
func TestRejectTable(t *testing.T) {
	for _, mode := range []Mode{Append, Upsert} {
		l := badLab(t)
		g := l.target("t", mode, []string{"k", "v", "u", "p", "q"}, []string{"k"})
		rows := l.rows(g, badRows...)
		app := l.staged(g, rows)
		// Without leave to sort them out nothing happens, and the rows stay.
		if _, _, err := l.apply(app); pgconn.Row(err) == nil {
			t.Fatalf("%v", err)
		}
		if l.text("SELECT count(*) FROM etl.marker") != "0" || l.text("SELECT rows FROM etl.staged") != "10" {
			t.Error("a failed merge left something")
		}
		app.Sort = true
		m, n, err := l.apply(app)
		if err != nil || m != Applied || n != 8 {
			t.Fatalf("%v %d %v", m, n, err)
		}
		if got := l.text("SELECT string_agg(k::text, ' ' ORDER BY k) FROM t"); got != "1 9 100" {
			t.Errorf("%s: %s", mode, got)
		}
		if got := l.text("SELECT string_agg(code, ' ' ORDER BY seq) FROM etl.reject"); got != badStates {
			t.Errorf("%s: %s", mode, got)
		}
		if got := l.text(`SELECT source || ' ' || (row->>'k') || ' ' || (row ? 'etl_seq') FROM etl.reject WHERE seq = 1`); got != "in/2@1 2 false" {
			t.Errorf("%s: %s", mode, got)
		}
		if got := l.text("SELECT rows FROM etl.marker"); got != "2" {
			t.Errorf("%s: the marker speaks of %s rows", mode, got)
		}
		if m, _, err := l.apply(app); m != Before || err != nil {
			t.Errorf("again: %v %v", m, err)
		}
		if l.text("SELECT count(*) FROM etl.staged") != "0" || l.text("SELECT count(*) FROM etl."+l.book.StageTable()) != "0" {
			t.Error("something is still staged")
		}
	}
}
