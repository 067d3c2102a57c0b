package redis

import (
	"context"
	"strconv"
	"testing"

	"etl/internal/redistest"
	"etl/sink/idempotent"
	"etl/sink/idempotent/storetest"
	"etl/state"
	"etl/stream"
)

// open starts an attempt on what a checkpoint kept.
func (l *lab) open(no stream.Attempt, life stream.Lineage, restored ...state.Handle) (*storetest.Attempt, error) {
	return storetest.Open(l, New(l.cfg), l.prefix, no, life, restored...)
}

func (l *lab) MustOpen(no stream.Attempt, restored ...state.Handle) *storetest.Attempt {
	l.Helper()
	a, err := l.open(no, storetest.Lineage, restored...)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

func (l *lab) Want(key, value string) {
	l.Helper()
	if got, err := l.get(context.Background(), key); got != value || err != nil {
		l.Errorf("%s shows %q, want %q (%v)", key, got, value, err)
	}
}

func TestReplay(t *testing.T) {
	storetest.Replay(func(guard idempotent.Guard) storetest.Store {
		return newLab(t, redistest.Shared(t), func(c *Config) { c.Guard = guard })
	})
}

// A zombie that comes back writes in vain, and what a new life of the job writes counts,
// however low its versions are.
func TestScopes(t *testing.T) {
	l := newLab(t, redistest.Shared(t), nil)
	zombie := l.MustOpen(1)
	zombie.MustFlush(storetest.Row("k", 5))
	l.MustOpen(2).MustFlush(storetest.Row("k", 7))
	zombie.MustFlush(storetest.Row("k", 6))
	l.Want("k", "7")
	fresh, err := l.open(1, stream.Lineage{9})
	if err != nil {
		t.Fatal(err)
	}
	fresh.MustFlush(storetest.Row("k", 1))
	l.Want("k", "1")
}

// Versions are compared exactly, beyond what Lua's numbers hold.
func TestLargeVersions(t *testing.T) {
	l := newLab(t, redistest.Shared(t), nil)
	a := l.MustOpen(1)
	for i, v := range []uint64{9, 10, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<63 - 1} {
		r := storetest.Row("k", i)
		r.Version = v
		a.MustFlush(r)
		l.Want("k", strconv.Itoa(i))
	}
	r := storetest.Row("k", 99)
	r.Version = 1<<53 + 1
	a.MustFlush(r)
	l.Want("k", "5")
}

// A replay does not bring a deleted key back.
func TestTombstones(t *testing.T) {
	for _, kind := range []Kind{String, Hash} {
		l := newLab(t, redistest.Shared(t), func(c *Config) { c.Kind = kind })
		a := l.MustOpen(1)
		a.MustFlush(storetest.Row("k", 1), storetest.Row("k", 2))
		gone := storetest.Row("k", 3)
		gone.Value = nil
		a.MustFlush(gone)
		l.Want("k", "")
		l.MustOpen(2).MustFlush(storetest.Row("k", 2))
		l.Want("k", "")
		if ttl := l.client.TTL(t.Context(), l.prefix+"k"+versionSuffix).Val(); ttl <= 0 || ttl > l.cfg.WithDefaults().Tombstones {
			t.Errorf("the version of a deleted key stays for %v", ttl)
		}
		a.MustFlush(storetest.Row("k", 4))
		l.Want("k", "4")
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
	a := l.MustOpen(1)
	var out storetest.Rejects
	got, err := a.Flush(&out, storetest.Row("bad", 1), storetest.Row("good", 1))
	if err != nil || !got.More {
		t.Fatal(got, err)
	}
	l.Want("good", "1")
	again := l.MustOpen(2, got.State...)
	if _, err := again.Flush(&out); err != nil || len(out) != 1 || stream.CodeOf(out[0]) != "redis.row" {
		t.Errorf("rejected after a restart: %v, %v", out, err)
	}
	l.cfg.OnError = idempotent.Fail
	if _, err := l.MustOpen(3).Flush(&out, storetest.Row("bad", 1)); stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "redis.row" {
		t.Errorf("under fail: %v", err)
	}
}

// A server that was killed and had everything goes on after a restart of the attempt; one
// that has forgotten rows ends the job by name.
func TestServerRestarts(t *testing.T) {
	for forgets, setting := range map[bool]string{false: "yes", true: "no"} {
		s := redistest.Start(t, redistest.Config{Settings: map[string]string{"appendonly": setting}})
		l := newLab(t, s, nil)
		a := l.MustOpen(1)
		restored := a.MustFlush(storetest.Row("k", 1)).State
		s.Kill(t)
		s.Restart(t)
		var out storetest.Rejects
		if _, err := a.Flush(&out, storetest.Row("k", 2)); stream.ClassOf(err) != stream.Restart || stream.CodeOf(err) != "redis.restarted" {
			t.Fatalf("the attempt goes on over another run of the server: %v", err)
		}
		b, err := l.open(2, storetest.Lineage, restored...)
		if forgets {
			if stream.ClassOf(err) != stream.DataLoss || stream.CodeOf(err) != "redis.forgotten" {
				t.Errorf("the server has forgotten rows: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.MustFlush(storetest.Row("k", 2))
		l.Want("k", "2")
	}
}

// Whatever else an attempt does when the server has forgotten its rows, it leaves nothing
// there that the next one takes for them, although the scripts are there already.
func TestNothingGoesToAnotherRun(t *testing.T) {
	for name, rows := range map[string][]stream.Record{"a note alone": nil, "a row": {storetest.Row("k", 2)}} {
		s := redistest.Start(t, redistest.Config{Settings: map[string]string{"appendonly": "no"}})
		l := newLab(t, s, nil)
		a := l.MustOpen(1)
		restored := a.MustFlush(storetest.Row("k", 1)).State
		s.Kill(t)
		s.Restart(t)
		for _, text := range []string{script, keepScript} {
			if err := l.client.ScriptLoad(t.Context(), text).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var out storetest.Rejects
		if _, err := a.Flush(&out, rows...); stream.ClassOf(err) != stream.Restart || stream.CodeOf(err) != "redis.restarted" {
			t.Errorf("%s goes on over another run of the server: %v", name, err)
		}
		if keys, err := l.client.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
			t.Errorf("%s: the other run has %q, %v", name, keys, err)
		}
		if _, err := l.open(2, storetest.Lineage, restored...); stream.CodeOf(err) != "redis.forgotten" {
			t.Errorf("%s: the next attempt goes on over what was forgotten: %v", name, err)
		}
	}
}

// Servers that may drop keys, or take no writes, are refused.
func TestRefusedServers(t *testing.T) {
	s := redistest.Start(t, redistest.Config{Settings: map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}})
	l := newLab(t, s, nil)
	if _, err := l.open(1, storetest.Lineage); stream.CodeOf(err) != "redis.evicts" {
		t.Errorf("a server that evicts: %v", err)
	}
	l.cfg.Conn.Username, l.cfg.Conn.Password = "nobody", "wrong"
	if _, err := l.open(1, storetest.Lineage); stream.ClassOf(err) != stream.Environment || stream.CodeOf(err) != "redis.auth" {
		t.Errorf("a wrong password: %v", err)
	}
}

// Scripts that somebody flushed are loaded again.
func TestFlushedScripts(t *testing.T) {
	s := redistest.Start(t, redistest.Config{})
	l := newLab(t, s, nil)
	a := l.MustOpen(1)
	if err := l.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	a.MustFlush(storetest.Row("k", 1))
	l.Want("k", "1")
}

func TestBadRows(t *testing.T) {
	l := newLab(t, redistest.Shared(t), func(c *Config) { c.Kind = Counter })
	a := l.MustOpen(1)
	var out storetest.Rejects
	r := storetest.Row("k", 1)
	r.Value = []byte("1.5")
	if _, err := a.Flush(&out, r, stream.Record{Value: []byte("1"), Version: 1}); err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || stream.CodeOf(out[0]) != "redis.counter" || stream.CodeOf(out[1]) != "redis.key" {
		t.Errorf("rejected: %v", out)
	}
	if _, err := a.Flush(&out, stream.Record{Key: []byte("k"), Value: []byte("1")}); stream.CodeOf(err) != "idempotent.no_version" {
		t.Errorf("a record that nobody counted: %v", err)
	}
}
