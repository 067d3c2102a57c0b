package postgres

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/checkpoint"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/sink"
	"etl/stream"
)

// flow is phase one of one subtask, and what it says.
type flow struct {
	*lab
	w       *Writer
	env     stream.Env
	n       uint32
	rejects []string

	mu  sync.Mutex
	log bytes.Buffer
}

func (f *flow) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

// says waits until the log holds a text.
func (f *flow) says(text string) {
	f.Helper()
	f.until("the log says "+text, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return strings.Contains(f.log.String(), text)
	})
}

func (f *flow) until(what string, ok func() bool) {
	f.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			f.Fatalf("not within two minutes: %s\n%s", what, f.log.String())
		}
	}
}

// Reject implements sink.Output.
func (f *flow) Reject(r stream.Record, err error) {
	f.rejects = append(f.rejects, fmt.Sprintf("%s: %v", r.Key, err))
}

func newFlow(l *lab) *flow {
	f := &flow{lab: l}
	w := stream.SystemWorld(slog.New(slog.NewTextHandler(f, nil)))
	f.env = stream.Env{World: w, Job: l.job, Lineage: stream.Lineage{1, 2, 3, 4, 5, 6, 0x40, 7, 0x80}, Attempt: 1, UID: "out", Parallelism: 1}
	f.w = New(l.cfg).NewWriter().(*Writer)
	if err := f.w.Open(l.Context(), f.env, nil); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = f.w.Close() }) // never fails
	return f
}

// write writes rows, "key" or "key=number".
func (f *flow) write(rows ...string) {
	f.Helper()
	if err := f.w.Write(f.Context(), batchOf(rows), f); err != nil {
		f.Fatal(err)
	}
}

func (f *flow) prepare() sink.Pending {
	f.Helper()
	f.n++
	p, err := f.w.PrepareCommit(f.Context(), f.id(), f)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

func (f *flow) id() stream.CheckpointID { return stream.NewCheckpointID(1, f.n) }

func (f *flow) finish() sink.Prepared {
	f.Helper()
	got, err := f.prepare().Finish(f.Context(), nil)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// finishing runs Finish in the background.
func (f *flow) finishing() (wait func() error) {
	p, done := f.prepare(), make(chan error, 1)
	go func() { _, err := p.Finish(context.WithoutCancel(f.Context()), nil); done <- err }()
	return func() error { return <-done }
}

func preparedUpsert(c *Config) { variants["prepared upsert"](c) }

// A server without a free prepared transaction is asked again, and the message says who
// has them (P02).
func TestNoPreparedTransactionIsFree(t *testing.T) {
	d := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"max_prepared_transactions": "2", "fsync": "off"}})
	f := newFlow(newLab(t, d, preparedUpsert))
	for _, name := range []string{"one", "two"} {
		f.exec("BEGIN; SELECT 1; PREPARE TRANSACTION '" + name + "'")
	}
	f.write("a=1")
	wait := f.finishing()
	f.says("all 2 prepared transactions of the server are taken: of this database 0 by this sink [], 2 by others")
	f.exec("ROLLBACK PREPARED 'one'")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	f.exec("ROLLBACK PREPARED 'two'")
	if got, _ := f.inDoubt(t.Context()); len(got) != 1 {
		t.Errorf("prepared are %q", got)
	}
	f.exec("ROLLBACK PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
}

// A row that somebody else has locked is waited for, in pieces of lock_timeout, and the
// transaction is whole afterwards.
func TestLockedRow(t *testing.T) {
	f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) { preparedUpsert(c); c.LockTimeout = 30 * time.Millisecond }))
	f.exec("INSERT INTO " + f.cfg.Table + " VALUES ('a', 0)")
	other, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), "SELECT * FROM "+f.cfg.Table+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	f.write("a=1", "b=2")
	wait := f.finishing()
	f.says("lock timeout")
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	f.exec("COMMIT PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
	if got := f.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM " + f.cfg.Table); got != "a1 b2" {
		t.Errorf("the table holds %s", got)
	}
}

// Of several changes of one key in an epoch the last one counts, whatever kinds they are
// (P11, P12); a delete without its key, and one where none is allowed, is rejected.
func TestChangesOfOneKey(t *testing.T) {
	for _, strategy := range []Strategy{Prepared, Staged} {
		f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) { c.Mode, c.Key, c.Strategy = UpsertDelete, []string{"k"}, strategy }))
		f.exec("INSERT INTO " + f.cfg.Table + " VALUES ('gone', 0), ('back', 0), ('kept', 0)")
		f.write("x=1", "gone", "back", "back=5", "new=1", "new", "new=2", "was=1", "was", "x=2")
		got := f.finish()
		if strategy == Prepared {
			f.exec("COMMIT PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
		} else {
			f.merge(got.Committables[0])
		}
		if got := f.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM " + f.cfg.Table); got != "back5 kept0 new2 x2" {
			t.Errorf("%s: the table holds %s", strategy, got)
		}
	}
	f := newFlow(newLab(t, pgtest.Shared(t), preparedUpsert))
	if f.write("a"); len(f.rejects) != 1 || !strings.Contains(f.rejects[0], "upsert_delete") {
		t.Errorf("rejected: %q", f.rejects)
	}
}

// A bad row gives way to the good one of its key before it, in the same epoch, in memory
// and on disk; of two bad ones after it both are rejected, at the next barrier.
func TestBadRowGivesWay(t *testing.T) {
	for name, shape := range map[string]func(*Config){"prepared": preparedUpsert, "staged": variants["staged upsert"]} {
		for _, memory := range []int64{64 << 20, 1} {
			f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) { shape(c); c.Memory = memory }))
			rows := []string{"a=1", "a=2", "b=1", "a=-3", "a=-4", "c=-1", "b=2"}
			for i := range 6000 { // several chunks
				rows = append(rows, fmt.Sprintf("fill%d=%d", i, i))
			}
			f.write(rows...)
			got := f.finish()
			if name == "prepared" {
				f.exec("COMMIT PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
			} else {
				f.merge(got.Committables[0])
			}
			f.w.Published(f.id())
			f.w.Resolved(f.id(), false)
			if memory == 1 && f.w.mem.Spilled() == 0 {
				t.Error("nothing went to disk")
			}
			if got := f.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM " + f.cfg.Table + " WHERE k < 'd'"); got != "a2 b2" {
				t.Errorf("%s: the table holds %s", name, got)
			}
			if n := f.text("SELECT count(*) FROM " + f.cfg.Table); n != "6002" {
				t.Errorf("%s: %s rows", name, n)
			}
			if f.finish(); len(f.rejects) != 3 {
				t.Errorf("%s: rejected %q", name, f.rejects)
			}
		}
	}
}

// More rows than are sorted out one by one mean that the table is wrong. Who puts rows
// aside already is not told to do that.
func TestTooManyRowsRefusedAfterThePermit(t *testing.T) {
	f := newFlow(newLab(t, pgtest.Shared(t), variants["staged append"]))
	var rows []string
	for i := range 1002 {
		rows = append(rows, fmt.Sprintf("k%d=%d", i, i))
	}
	f.write(rows...)
	got := f.finish()
	f.exec("ALTER TABLE " + f.cfg.Table + " ADD CHECK (n < 0)")
	err := f.tryMerge(got.Committables[0])
	if stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "postgres.too_many_bad_rows" || strings.Contains(err.Error(), "on_error") {
		t.Error(err)
	}
}

// merge applies what is staged, as a committer does after the permit.
func (f *flow) merge(c checkpoint.Committable) {
	f.Helper()
	if err := f.tryMerge(c); err != nil {
		f.Fatal(err)
	}
}

func (f *flow) tryMerge(c checkpoint.Committable) error {
	p, err := decode(&c)
	if err != nil {
		return err
	}
	m := &Committer{sink: f.w.sink, cfg: f.w.cfg, id: f.w.id, pools: f.w.pools}
	m.env.Attempt = 1
	return f.w.pools.commit.With(f.Context(), func(conn *pgconn.Conn) error {
		_, err := m.merge(f.Context(), conn, m.bookOf(p), p.merge, &c)
		return err
	})
}

// Markers are deleted now and then, all but the newest: the table does not grow.
func TestMarkersDoNotGrow(t *testing.T) {
	f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) { c.Strategy = Prepared }))
	for i := range 2*purgeEvery + 10 {
		f.write("k=" + strconv.Itoa(i))
		f.finish()
		f.exec("COMMIT PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
		f.w.Published(f.id())
		f.w.Resolved(f.id(), false)
		f.w.Resolved(f.id(), true)
	}
	f.until("markers are few", func() bool {
		n, err := strconv.Atoi(f.text("SELECT count(*) FROM etl.marker WHERE job = $1", f.job))
		return err == nil && n > 0 && n <= 2*purgeEvery
	})
	if newest := f.text("SELECT max(checkpoint) FROM etl.marker WHERE job = $1", f.job); newest != fmt.Sprint(int64(f.id())) {
		t.Errorf("the newest marker is %s instead of %d", newest, f.id())
	}
}

// Many subtasks share few connections, which are given back as soon as an epoch is
// prepared (P09).
func TestFewConnections(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) { c.Strategy, c.Parallelism, c.Conn.MaxConnections = Prepared, 6, 3 })
	own, flows := New(l.cfg), []*flow(nil)
	var waits []func() error
	for sub := range 6 {
		f := &flow{lab: l}
		f.env = stream.Env{World: stream.SystemWorld(nil), Job: l.job, Lineage: stream.Lineage{1, 2, 3, 4, 5, 6, 0x40, 7, 0x80}, Attempt: 1, UID: "out", Subtask: sub, Parallelism: 6}
		f.w = own.NewWriter().(*Writer)
		if err := f.w.Open(t.Context(), f.env, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.w.Close() }) // never fails
		flows = append(flows, f)
	}
	for range 3 {
		for _, f := range flows {
			f.write("k=1")
			waits = append(waits, f.finishing())
		}
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	sessions := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"
	if n := l.text(sessions, pgconn.Application(flows[0].env.Lineage, 1, l.job, "out")); n == "0" || n > "3" {
		t.Errorf("%s sessions of one sink, 3 are allowed", n)
	}
	gids, err := l.inDoubt(t.Context())
	if err != nil || len(gids) != 18 {
		t.Errorf("prepared are %q, %v", gids, err)
	}
	for _, gid := range gids {
		l.exec("ROLLBACK PREPARED '" + gid + "'")
	}
}

// The session of a stopped process that holds the fence is ended, and no other one.
func TestStoppedSessionIsEnded(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) { c.Strategy = Staged })
	f := newFlow(l)
	session := func(application string) *pgx.Conn {
		c, err := pgx.Connect(t.Context(), l.dsn+"&application_name="+strings.ReplaceAll(application, " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) }) // one of them is ended
		return c
	}
	own := session(pgconn.Application(f.env.Lineage, 1, l.job, "out"))
	other := session(pgconn.Application(f.env.Lineage, 1, l.job, "out2"))
	for _, c := range []*pgx.Conn{own, other} {
		for _, sql := range []string{"BEGIN", "SELECT * FROM etl.marker"} {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := own.Exec(t.Context(), "SELECT * FROM etl.fence FOR SHARE"); err != nil {
		t.Fatal(err)
	}
	c := New(l.cfg).NewCommitter()
	defer c.Close() //nolint:errcheck // it never fails
	if err := c.Open(t.Context(), sink.CommitEnv{World: f.env.World, Job: l.job, Lineage: f.env.Lineage, Attempt: 2, UID: "out", Owners: []stream.Attempt{1}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Fence(t.Context(), []stream.Attempt{1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := own.Ping(t.Context()); err == nil {
		t.Error("the session that held the fence goes on")
	}
	if err := other.Ping(t.Context()); err != nil {
		t.Errorf("the session of another sink was ended: %v", err)
	}
	if got := l.text("SELECT epoch FROM etl.fence WHERE job = $1", l.job); got != "2" {
		t.Errorf("the fence is at attempt %s", got)
	}
	f.write("a=1")
	if _, err := f.prepare().Finish(t.Context(), nil); stream.ClassOf(err) != stream.Fenced {
		t.Errorf("the attempt that was fenced prepares: %v", err)
	}
}

// TestPoints: every fault point in the code is in the table, and the other way round: a
// kill planned at a point that is not there kills nothing.
func TestPoints(t *testing.T) {
	found := map[string]bool{}
	for _, pattern := range []string{"*.go", "../../sqltxn/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(`fault\.Point\("([^"]+)"\)|"(postgres\.[a-z.]+\.sent)"\)`).FindAllStringSubmatch(string(b), -1) {
				found[m[1]+m[2]] = true
			}
		}
	}
	for name, k := range Points {
		if !found[name] {
			t.Errorf("%s (%s) is not in the code", name, k)
		}
		delete(found, name)
	}
	for name := range found {
		t.Errorf("%s is not in the table", name)
	}
}
