package redis

import (
	"context"
	"strconv"
	"testing"

	"etl/internal/redistest"
	"etl/sink"
	"etl/sink/idempotent"
	"etl/state"
	"etl/stream"
)

// attempt is a writer of the lab's sink.
type attempt struct {
	testing.TB
	w  sink.Writer
	no uint64
	n  uint64
}

var lineage = stream.Lineage{1, 2, 3}

// open starts an attempt on what a checkpoint kept.
func (l *lab) open(no uint64, line stream.Lineage, restored ...state.Handle) (*attempt, error) {
	w := New(l.cfg).NewWriter()
	l.Cleanup(func() { _ = w.Close() })
	err := w.Open(context.Background(), stream.Env{World: stream.SystemWorld(nil), Job: l.prefix, UID: "out", Lineage: line, Attempt: stream.Attempt(no), Parallelism: 1}, restored)
	return &attempt{TB: l, w: w, no: no}, err
}

func (l *lab) mustOpen(no uint64, restored ...state.Handle) *attempt {
	l.Helper()
	a, err := l.open(no, lineage, restored...)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

type rejects []error

func (r *rejects) Reject(_ stream.Record, err error) { *r = append(*r, err) }

// flush writes rows key=value, each with a version, and takes a checkpoint.
func (a *attempt) flush(out *rejects, rows ...stream.Record) (sink.Prepared, error) {
	a.Helper()
	b := stream.NewBatch(nil)
	for _, r := range rows {
		b.Append(r)
	}
	if err := a.w.Write(context.Background(), b, out); err != nil {
		return sink.Prepared{}, err
	}
	a.n++
	p, err := a.w.PrepareCommit(context.Background(), stream.NewCheckpointID(stream.Attempt(a.no), uint32(a.n)), out)
	if err != nil {
		return sink.Prepared{}, err
	}
	return p.Finish(context.Background(), nil)
}

func (a *attempt) mustFlush(rows ...stream.Record) sink.Prepared {
	a.Helper()
	var out rejects
	got, err := a.flush(&out, rows...)
	if err != nil || len(out) > 0 {
		a.Fatal(err, out)
	}
	return got
}

// row is the value v of key k, its version v as well.
func row(k string, v int) stream.Record {
	return stream.Record{Key: []byte(k), Value: []byte(strconv.Itoa(v)), Version: uint64(v), Offset: int64(v) - 1, Topic: "in", Pos: -1}
}

func (l *lab) want(key, value string) {
	l.Helper()
	if got, err := l.get(context.Background(), key); got != value || err != nil {
		l.Errorf("%s shows %q, want %q (%v)", key, got, value, err)
	}
}

// With the guard a reader never sees an older value in a replay; without, it does.
func TestReplay(t *testing.T) {
	s := redistest.Shared(t)
	for guard, older := range map[idempotent.Guard]bool{idempotent.Counter: false, idempotent.Position: false, idempotent.NoGuard: true} {
		l := newLab(t, s, func(c *Config) { c.Guard = guard })
		a := l.mustOpen(1)
		restored := a.mustFlush(row("k", 1), row("k", 2)).State
		a.mustFlush(row("k", 3), row("k", 4))
		b := l.mustOpen(2, restored...)
		b.mustFlush(row("k", 3))
		l.want("k", map[bool]string{true: "3", false: "4"}[older])
		b.mustFlush(row("k", 4), row("k", 5))
		l.want("k", "5")
	}
}

// A zombie that comes back writes in vain, and what a new life of the job writes counts,
// however low its versions are.
func TestScopes(t *testing.T) {
	l := newLab(t, redistest.Shared(t), nil)
	zombie := l.mustOpen(1)
	zombie.mustFlush(row("k", 5))
	l.mustOpen(2).mustFlush(row("k", 7))
	zombie.mustFlush(row("k", 6))
	l.want("k", "7")
	fresh, err := l.open(1, stream.Lineage{9})
	if err != nil {
		t.Fatal(err)
	}
	fresh.mustFlush(row("k", 1))
	l.want("k", "1")
}

// Versions are compared exactly, beyond what Lua's numbers hold.
func TestLargeVersions(t *testing.T) {
	l := newLab(t, redistest.Shared(t), nil)
	a := l.mustOpen(1)
	for i, v := range []uint64{9, 10, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<63 - 1} {
		r := row("k", i)
		r.Version = v
		a.mustFlush(r)
		l.want("k", strconv.Itoa(i))
	}
	r := row("k", 99)
	r.Version = 1<<53 + 1
	a.mustFlush(r)
	l.want("k", "5")
}

// A replay does not bring a deleted key back.
func TestTombstones(t *testing.T) {
	for _, kind := range []Kind{String, Hash} {
		l := newLab(t, redistest.Shared(t), func(c *Config) { c.Kind = kind })
		a := l.mustOpen(1)
		a.mustFlush(row("k", 1), row("k", 2))
		gone := row("k", 3)
		gone.Value = nil
		a.mustFlush(gone)
		l.want("k", "")
		l.mustOpen(2).mustFlush(row("k", 2))
		l.want("k", "")
		if ttl := l.client.TTL(t.Context(), l.prefix+"k"+versionSuffix).Val(); ttl <= 0 || ttl > l.cfg.WithDefaults().Tombstones {
			t.Errorf("the version of a deleted key stays for %v", ttl)
		}
		a.mustFlush(row("k", 4))
		l.want("k", "4")
		if ttl := l.client.TTL(t.Context(), l.prefix+"k"+versionSuffix).Val(); ttl >= 0 {
			t.Errorf("the version of a key that is back goes in %v", ttl)
		}
	}
}

// A key of another type is a bad row: it goes out at the next barrier, the rest is written,
// and under fail the job ends.
func TestKeyOfAnotherType(t *testing.T) {
	l := newLab(t, redistest.Shared(t), func(c *Config) { c.Kind = Hash })
	if err := l.client.Set(t.Context(), l.prefix+"bad", "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	a := l.mustOpen(1)
	var out rejects
	got, err := a.flush(&out, row("bad", 1), row("good", 1))
	if err != nil || !got.More {
		t.Fatal(got, err)
	}
	l.want("good", "1")
	again := l.mustOpen(2, got.State...)
	if _, err := again.flush(&out); err != nil || len(out) != 1 || stream.CodeOf(out[0]) != "redis.row" {
		t.Errorf("rejected after a restart: %v, %v", out, err)
	}
	l.cfg.OnError = idempotent.Fail
	if _, err := l.mustOpen(3).flush(&out, row("bad", 1)); stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "redis.row" {
		t.Errorf("under fail: %v", err)
	}
}

// A server that was killed and had everything goes on after a restart of the attempt; one
// that has forgotten rows ends the job by name.
func TestServerRestarts(t *testing.T) {
	for forgets, setting := range map[bool]string{false: "yes", true: "no"} {
		s := redistest.Start(t, redistest.Config{Settings: map[string]string{"appendonly": setting}})
		l := newLab(t, s, nil)
		a := l.mustOpen(1)
		restored := a.mustFlush(row("k", 1)).State
		s.Kill(t)
		s.Restart(t)
		var out rejects
		if _, err := a.flush(&out, row("k", 2)); stream.ClassOf(err) != stream.Restart || stream.CodeOf(err) != "redis.restarted" {
			t.Fatalf("the attempt goes on over another run of the server: %v", err)
		}
		b, err := l.open(2, lineage, restored...)
		if forgets {
			if stream.ClassOf(err) != stream.DataLoss || stream.CodeOf(err) != "redis.forgotten" {
				t.Errorf("the server has forgotten rows: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.mustFlush(row("k", 2))
		l.want("k", "2")
	}
}

// Servers that may drop keys, or take no writes, are refused.
func TestRefusedServers(t *testing.T) {
	s := redistest.Start(t, redistest.Config{Settings: map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}})
	l := newLab(t, s, nil)
	if _, err := l.open(1, lineage); stream.CodeOf(err) != "redis.evicts" {
		t.Errorf("a server that evicts: %v", err)
	}
	l.cfg.Conn.Username, l.cfg.Conn.Password = "nobody", "wrong"
	if _, err := l.open(1, lineage); stream.ClassOf(err) != stream.Environment || stream.CodeOf(err) != "redis.auth" {
		t.Errorf("a wrong password: %v", err)
	}
}

// Scripts that somebody flushed are loaded again.
func TestFlushedScripts(t *testing.T) {
	s := redistest.Start(t, redistest.Config{})
	l := newLab(t, s, nil)
	a := l.mustOpen(1)
	if err := l.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	a.mustFlush(row("k", 1))
	l.want("k", "1")
}

func TestBadRows(t *testing.T) {
	l := newLab(t, redistest.Shared(t), func(c *Config) { c.Kind = Counter })
	a := l.mustOpen(1)
	var out rejects
	r := row("k", 1)
	r.Value = []byte("1.5")
	if _, err := a.flush(&out, r, stream.Record{Value: []byte("1"), Version: 1}); err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || stream.CodeOf(out[0]) != "redis.counter" || stream.CodeOf(out[1]) != "redis.key" {
		t.Errorf("rejected: %v", out)
	}
	if _, err := a.flush(&out, stream.Record{Key: []byte("k"), Value: []byte("1")}); stream.CodeOf(err) != "idempotent.no_version" {
		t.Errorf("a record that nobody counted: %v", err)
	}
}
