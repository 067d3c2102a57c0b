package sqltxn

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/stream"
)

// staged stages an epoch as attempt 1 and returns how it is to be merged.
func (l *lab) staged(g *Target, rows *Rows) Application {
	l.Helper()
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		l.must(l.book.Enter(ctx, c, 1))
		return l.book.Stage(ctx, c, g, 1, 0, id, rows, nil, second)
	})
	m := l.book.MergeOf(g, rows.Reduced())
	return Application{Merge: &m, ID: id, Rows: int64(rows.Len()), Attempt: 1, LockTimeout: second}
}

func (l *lab) apply(a Application) (m Merged, n int, err error) {
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		m, n, err = l.book.Apply(ctx, c, a)
		return nil
	})
	return m, n, err
}

func pairs(t *testing.T) (*lab, *Target) {
	l := newLab(t)
	l.run("CREATE TABLE t (k int PRIMARY KEY, v text)")
	return l, l.target("t", Upsert, []string{"k", "v"}, []string{"k"})
}

// Staging the same epoch twice, because nobody knows whether the first time worked, is
// staging it once.
func TestStageTwice(t *testing.T) {
	l, g := pairs(t)
	rows := l.rows(g, []any{1, "a"}, []any{2, "b"})
	l.staged(g, rows)
	l.staged(g, rows)
	if n := l.text("SELECT count(*) FROM etl." + l.book.StageTable()); n != "2" {
		t.Errorf("%s rows are staged", n)
	}
	err := l.p.With(t.Context(), func(c *pgconn.Conn) error {
		return l.book.Stage(t.Context(), c, g, 1, 0, id, l.rows(g, []any{1, "a"}), nil, second)
	})
	if stream.CodeOf(err) != "postgres.staged_differently" {
		t.Error(err)
	}
}

// Of many who apply one epoch at the same time one does it.
func TestApplyOnce(t *testing.T) {
	l := newLab(t)
	l.run("CREATE TABLE t (k int)")
	g := l.target("t", Append, []string{"k"}, nil)
	app := l.staged(g, l.rows(g, []any{1}, []any{2}, []any{3}))
	app.LockTimeout = time.Minute // each waits for those before it
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[Merged]int{}
	for range 4 {
		wg.Go(func() {
			err := l.p.With(t.Context(), func(c *pgconn.Conn) error {
				m, _, err := l.book.Apply(t.Context(), c, app)
				mu.Lock()
				got[m]++
				mu.Unlock()
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got[Applied] != 1 || got[Before] != 3 || l.text("SELECT count(*) FROM t") != "3" {
		t.Error(got, l.text("SELECT count(*) FROM t"))
	}
}

// Rows that are not there, or not all, are never taken for applied.
func TestVanished(t *testing.T) {
	for what, sql := range map[string]string{"all": "DELETE FROM etl.staged", "a row": "DELETE FROM etl.%s WHERE etl_seq = 0", "the count": "UPDATE etl.staged SET rows = 1"} {
		l, g := pairs(t)
		app := l.staged(g, l.rows(g, []any{1, "a"}, []any{2, "b"}))
		l.run(strings.ReplaceAll(sql, "%s", l.book.StageTable()))
		if m, _, err := l.apply(app); m != Vanished || err != nil {
			t.Errorf("%s: %v %v", what, m, err)
		}
		if l.text("SELECT count(*) FROM t") != "0" || l.text("SELECT count(*) FROM etl.marker") != "0" {
			t.Errorf("%s: something was committed", what)
		}
	}
}

// Only what the given attempts staged goes, and of that nothing that is to be kept.
func TestDropStaged(t *testing.T) {
	l, g := pairs(t)
	foreign := l.book
	foreign.Lineage[0]++
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		for a := stream.Attempt(1); a <= 3; a++ {
			for _, b := range []Book{l.book, foreign} {
				l.must(b.TakeOver(ctx, c, a))
				for sub := range 2 {
					l.must(b.Stage(ctx, c, g, a, sub, stream.NewCheckpointID(a, 5), l.rows(g, []any{1, "a"}), nil, second))
				}
			}
		}
		n, err := l.book.DropStaged(ctx, c, []stream.Attempt{1, 2}, func(sub int, id stream.CheckpointID) bool { return sub == 1 && id.Attempt() == 2 }, second)
		if n != 3 {
			t.Errorf("%d epochs were dropped", n)
		}
		return err
	})
	for _, table := range []string{"etl.staged", "etl." + l.book.StageTable()} {
		if n := l.text("SELECT count(*) FROM " + table); n != "9" {
			t.Errorf("%s has %s rows", table, n)
		}
	}
}

// fenceIn checks the fence in a transaction of its own.
func (l *lab) fenceIn(a stream.Attempt, exact bool) (err error) {
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		l.must(c.Begin(ctx, 100*time.Millisecond))
		err = l.book.Fence(ctx, c, a, exact)
		return nil
	})
	return err
}

func TestFence(t *testing.T) {
	l, _ := pairs(t)
	if err := l.fenceIn(2, false); err != nil {
		t.Errorf("before anybody wrote: %v", err)
	}
	if err := l.fenceIn(2, true); stream.ClassOf(err) != stream.Restart {
		t.Errorf("before anybody wrote, exact: %v", err)
	}
	take := func(a stream.Attempt) {
		l.do(func(ctx context.Context, c *pgconn.Conn) error { return l.book.TakeOver(ctx, c, a) })
	}
	take(2)
	take(1) // comes late
	for a, want := range map[stream.Attempt]string{1: "fenced fenced", 2: "ok ok", 3: "fenced ok"} {
		word := func(err error) string {
			if err == nil {
				return "ok"
			}
			return stream.ClassOf(err).String()
		}
		if got := word(l.fenceIn(a, true)) + " " + word(l.fenceIn(a, false)); got != want {
			t.Errorf("attempt %d: %s, want %s", a, got, want)
		}
	}
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		if err := l.book.Enter(ctx, c, 1); stream.ClassOf(err) != stream.Fenced {
			t.Errorf("a late attempt enters: %v", err)
		}
		return l.book.Enter(ctx, c, 2)
	})
}

// Looking for bad rows among staged ones locks what a merge locks: it reads the fence as
// well, so that a takeover waits for it, and who was taken over does not begin.
func TestSiftMergeIsFenced(t *testing.T) {
	l, g := pairs(t)
	app := l.staged(g, l.rows(g, []any{1, "a"}))
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		if bad, err := l.book.siftMerge(ctx, c, app); err != nil || len(bad) > 0 {
			t.Errorf("%v, %v", bad, err)
		}
		l.must(l.book.TakeOver(ctx, c, 2))
		if _, err := l.book.siftMerge(ctx, c, app); stream.ClassOf(err) != stream.Fenced {
			t.Errorf("who was taken over looks: %v", err)
		}
		return nil
	})
}

// Taking over waits for every transaction that has read the fence, prepared ones included:
// afterwards none of them can commit any more.
func TestTakeOverWaits(t *testing.T) {
	l, _ := pairs(t)
	gid := l.book.GID(0, id)
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		l.must(l.book.Enter(ctx, c, 1))
		l.must(c.Begin(ctx, second))
		l.must(l.book.Fence(ctx, c, 1, true))
		return c.PrepareTransaction(ctx, gid, "")
	})
	take := func() (err error) {
		l.do(func(ctx context.Context, c *pgconn.Conn) error {
			l.must(c.Begin(ctx, 50*time.Millisecond))
			if err = l.book.TakeOver(ctx, c, 2); err == nil {
				err = c.Commit(ctx)
			}
			return nil
		})
		return err
	}
	if err := take(); stream.CodeOf(err) != pgconn.CodeLocked {
		t.Fatalf("taken over while a transaction was prepared: %v", err)
	}
	l.do(func(ctx context.Context, c *pgconn.Conn) error { return c.RollbackPrepared(ctx, gid) })
	l.must(take())
	if err := l.fenceIn(1, true); stream.ClassOf(err) != stream.Fenced {
		t.Error(err)
	}
}

func TestMarkers(t *testing.T) {
	l, _ := pairs(t)
	foreign := l.book
	foreign.Lineage[0]++
	ck := func(n uint32) stream.CheckpointID { return stream.NewCheckpointID(3, n) }
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		for n := uint32(1); n <= 5; n++ {
			for range 2 {
				ok, err := l.book.Mark(ctx, c, 1, ck(n), 7)
				l.must(err)
				if !ok {
					break
				}
			}
		}
		for n, want := range map[uint32]bool{1: true, 5: true, 6: false} {
			if ok, err := l.book.Marked(ctx, c, 1, ck(n)); ok != want || err != nil {
				t.Errorf("%d: %v %v", n, ok, err)
			}
		}
		if ok, _ := l.book.Marked(ctx, c, 0, ck(1)); ok {
			t.Error("the marker of another subtask")
		}
		for sub, want := range map[int]stream.CheckpointID{0: stream.NoCheckpoint, 1: ck(5)} {
			if id, err := l.book.Newest(ctx, c, sub); id != want || err != nil {
				t.Errorf("subtask %d: %s %v", sub, id, err)
			}
		}
		if err := l.book.Foreign(ctx, c); err != nil {
			t.Error(err)
		}
		if err := foreign.Foreign(ctx, c); stream.CodeOf(err) != "postgres.foreign_lineage" || stream.ClassOf(err) != stream.RestoreRefused || !strings.Contains(err.Error(), "3.5") {
			t.Error(err)
		}
		if n, err := l.book.Purge(ctx, c, 1, ck(4)); n != 3 || err != nil {
			t.Errorf("purged %d %v", n, err)
		}
		if n, err := l.book.Purge(ctx, c, 1, ck(99)); n != 1 || err != nil {
			t.Errorf("purged %d, the newest among them? %v", n, err)
		}
		return nil
	})
}

// A role with the printed grants and nothing else can do everything a sink does; one that
// lacks a right is told so by name, before the first row.
func TestLeastPrivilege(t *testing.T) {
	for _, mode := range []Mode{Append, Upsert, UpsertDelete} {
		l := newLab(t)
		l.run("CREATE TABLE t (k int PRIMARY KEY, v text)", "DO $$ BEGIN CREATE ROLE worker LOGIN PASSWORD 'pw'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
		g := l.target("t", mode, []string{"k", "v"}, []string{"k"})
		worker := l.as("worker")
		err := worker.p.With(t.Context(), func(c *pgconn.Conn) error { return l.book.CheckRights(t.Context(), c, g, true) })
		if stream.ClassOf(err) != stream.Environment {
			t.Errorf("without rights: %v", err)
		}
		l.do(func(ctx context.Context, c *pgconn.Conn) error {
			return ApplyStatements(ctx, c, l.book.Grants(g, "worker"))
		})
		worker.do(func(ctx context.Context, c *pgconn.Conn) error { return l.book.CheckRights(ctx, c, g, true) })
		worker.do(func(ctx context.Context, c *pgconn.Conn) error { return l.book.CheckStage(ctx, c, g) })
		rows := l.rows(g, []any{1, "a"}, []any{2, "b"})
		app := worker.staged(g, rows)
		app.Sort = true
		l.run("INSERT INTO t VALUES (2, 'there')")
		if m, n, err := worker.apply(app); m != Applied || err != nil || (n == 1) != (mode == Append) {
			t.Errorf("%s: %v %d %v", mode, m, n, err)
		}
		l.run("DELETE FROM t")
		worker.do(func(ctx context.Context, c *pgconn.Conn) error {
			l.must(l.book.TakeOver(ctx, c, 2))
			l.must(c.Begin(ctx, second))
			l.must(l.book.Fence(ctx, c, 2, true))
			_, err := l.book.Mark(ctx, c, 0, stream.NewCheckpointID(2, 1), 2)
			l.must(err)
			l.must(g.Write(ctx, c, rows, nil))
			l.must(c.PrepareTransaction(ctx, "g", ""))
			l.must(c.CommitPrepared(ctx, "g", ""))
			_, err = l.book.Purge(ctx, c, 0, stream.NewCheckpointID(2, 1))
			return err
		})
		l.run("REVOKE INSERT ON t FROM worker")
		err = worker.p.With(t.Context(), func(c *pgconn.Conn) error { return l.book.CheckRights(t.Context(), c, g, false) })
		if stream.CodeOf(err) != pgconn.CodePermission || !strings.Contains(err.Error(), `GRANT INSERT ON "public"."t"`) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// as returns the lab as another role sees it.
func (l *lab) as(role string) *lab {
	l.Helper()
	var name string
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		return c.QueryRow(ctx, "SELECT current_database()", nil, &name)
	})
	u, err := url.Parse(pgtest.Shared(l.TB).DSN())
	l.must(err)
	u.User, u.Path = url.User(role), "/"+name
	p, err := pgconn.Open(l.Context(), pgconn.Config{DSN: u.String(), Password: "pw"}, 2, "etl test")
	l.must(err)
	l.Cleanup(p.Close)
	return &lab{l.TB, p, l.book}
}

// Without the tables the error says how to make them.
func TestNotInitialised(t *testing.T) {
	l := newLab(t)
	err := l.p.With(t.Context(), func(c *pgconn.Conn) error { return l.book.Enter(t.Context(), c, 1) })
	var e *stream.Error
	if !errors.As(err, &e) || e.Code != "postgres.not_initialised" || e.Class != stream.Environment || !strings.Contains(e.Fix, "etl sink init") {
		t.Error(err)
	}
}

func TestStageThatDiffers(t *testing.T) {
	l, _ := pairs(t)
	l.run("ALTER TABLE t ADD w int, ALTER v TYPE varchar(5)")
	var g *Target
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		tab, err := LoadTable(ctx, c, "public", "t")
		l.must(err)
		var errs []error
		if g, errs = NewTarget(tab, Upsert, []string{"k", "v", "w"}, []string{"k"}); errs != nil {
			return errors.Join(errs...)
		}
		err = l.book.CheckStage(ctx, c, g)
		for _, part := range []string{"w is missing", "v is text, the target's is character varying(5)"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %s", err, part)
			}
		}
		return nil
	})
}

// What of a sink does not fit its table is found at once, all of it.
func TestTargetErrors(t *testing.T) {
	l := newLab(t)
	l.run(`CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, made int GENERATED ALWAYS AS (id) STORED, auto int GENERATED ALWAYS AS IDENTITY, p point, f float8 UNIQUE,
		part int, j jsonb, "Upper" int, etl_seq int)`, "CREATE UNIQUE INDEX ON t (part) WHERE id > 5", "CREATE UNLOGGED TABLE u (k int)", "CREATE VIEW v AS SELECT 1 AS k",
		"CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)", "CREATE TABLE c (k text COLLATE loose PRIMARY KEY, d char(3) UNIQUE)")
	for _, c := range []struct {
		table, mode, columns, key, want string
	}{
		{"t", "upsert", "id name", "id", ""},
		{"t", "append", "id name", "", ""},
		{"t", "append", "id", "", "postgres.column:name text"},
		{"t", "append", "id name nam made auto p upper etl_seq", "", "postgres.column:nam postgres.column:made postgres.column:auto postgres.type:p postgres.column:upper postgres.column:etl_seq"},
		{"t", "upsert", "id name part", "part", "postgres.no_unique_key:part"},
		{"t", "upsert", "id name", "id name", "postgres.no_unique_key:id, name"},
		{"t", "upsert", "id name f", "f", "postgres.key:f"},
		{"t", "upsert", "id name j", "j", "postgres.key:j postgres.no_unique_key:j"},
		{"u", "append", "k", "", "postgres.unlogged:public.u"},
		{"v", "append", "k", "", "postgres.table:public.v"},
		{"c", "upsert", "k", "k", "postgres.key:k"},
		{"c", "upsert", "k d", "d", "postgres.key:d"},
	} {
		l.do(func(ctx context.Context, conn *pgconn.Conn) error {
			tab, err := LoadTable(ctx, conn, "public", c.table)
			if err != nil {
				return err
			}
			_, errs := NewTarget(tab, Mode(c.mode), strings.Fields(c.columns), strings.Fields(c.key))
			var got []string
			for _, err := range errs {
				var e *stream.Error
				if !errors.As(err, &e) || e.Fix == "" || e.Class != stream.Environment {
					t.Errorf("%v", err)
					continue
				}
				got = append(got, e.Code+":"+e.Subject)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%+v:\n got %s", c, s)
			}
			return nil
		})
	}
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		_, err := LoadTable(ctx, c, "public", "none")
		if stream.CodeOf(err) != pgconn.CodeMissing {
			t.Error(err)
		}
		tab, err := LoadTable(ctx, c, "public", "t")
		l.must(err)
		g, _ := NewTarget(tab, Upsert, []string{"id", "name"}, []string{"id"})
		if got := fmt.Sprint(g.Conflicting()); got != "[t_f_key t_part_idx]" {
			t.Error(got)
		}
		return nil
	})
}
