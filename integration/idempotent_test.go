package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
	"etl/internal/redistest"
)

// intoStores counts by key into a table, a hash, a counter and a compacted topic, and keeps
// the last number of each key in another table, all of them idempotent.
const intoStores = common + `  db: { type: postgres, dsn: "${DSN}" }
  cache: { type: redis, address: "${REDIS}" }
` + often + `
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], fetch: { max_bytes: 1KiB, max_partition_bytes: 1KiB } } # a replay in small steps
transforms:
  counts: { type: aggregate, inputs: [in], key: this.k, aggregates: { c: count, last: { op: max, of: this.n } } }
sinks:
  table: { type: postgres, inputs: [counts], connection: db, delivery: idempotent, table: counts, key: k, columns: { k: this.key, c: this.c, last: this.last } }
  newest: { type: postgres, inputs: [in], connection: db, delivery: idempotent, table: newest, key: k, columns: { k: this.k, n: this.n } }
  hashes: { type: redis, inputs: [counts], connection: cache, prefix: "${PREFIX}h:", key: this.key, fields: { c: this.c, last: this.last } }
  numbers: { type: redis, inputs: [counts], connection: cache, kind: counter, prefix: "${PREFIX}n:", key: this.key, value: this.c }
  topic: { type: kafka, inputs: [counts], connection: main, topic: "${OUT}", key: this.key, delivery: idempotent }
`

// stores is where the job of this file writes.
type stores struct {
	t      testing.TB
	d      *database
	redis  *redis.Client
	prefix string
}

// look returns what a reader of each store sees of every key.
func (s *stores) look() map[string]int {
	s.t.Helper()
	out := map[string]int{}
	rows, err := s.d.pool.Query(context.Background(), "SELECT 'table ' || k, c FROM counts UNION ALL SELECT 'newest ' || k, n FROM newest")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var k string
		var n int
		if err := rows.Scan(&k, &n); err != nil {
			s.t.Fatal(err)
		}
		out[k] = n
	}
	ctx := context.Background()
	for i := range 7 {
		k := numberedKey(i)
		for name, got := range map[string]*redis.StringCmd{"hash ": s.redis.HGet(ctx, s.prefix+"h:"+k, "c"), "number ": s.redis.Get(ctx, s.prefix+"n:"+k)} {
			if n, err := got.Int(); err == nil || errors.Is(err, redis.Nil) { // no answer is not 0
				out[name+k] = n
			}
		}
	}
	return out
}

func numberedKey(i int) string { return string(numbered(i, i+1, 7, 1)[0].Key) }

// watch looks again and again, until the function it returns is called, and demands that no
// reader ever sees a number fall.
func (s *stores) watch() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var done sync.WaitGroup
	looks := 0
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		seen := map[string]int{}
		for ctx.Err() == nil {
			for k, n := range s.look() {
				if n < seen[k] {
					s.t.Errorf("%s shows %d, and a reader has seen %d", k, n, seen[k])
				}
				seen[k] = max(seen[k], n)
			}
			looks++
			<-tick.C
		}
	})
	return func() {
		cancel()
		done.Wait()
		if looks < 10 {
			s.t.Errorf("a reader has looked %d times only", looks)
		}
	}
}

// want are the numbers of n records of 7 keys in every store, once all are there.
func (s *stores) want(n int) map[string]int {
	out := map[string]int{}
	for i := range 7 {
		k, c := numberedKey(i), (n-i+6)/7
		out["table "+k], out["hash "+k], out["number "+k] = c, c, c
		out["newest "+k] = i + 7*(c-1)
	}
	return out
}

// spoil changes one row of each store, then another one back: etl verify must see it.
func (s *stores) spoil(j *job) {
	s.t.Helper()
	ctx, h, n := context.Background(), s.prefix+"h:"+numberedKey(2), s.prefix+"n:"+numberedKey(2)
	for what, change := range map[string]func(by int64) error{
		"table": func(by int64) error {
			s.d.exec(fmt.Sprintf("UPDATE counts SET c = c + %d WHERE k = 'k2'", by))
			return nil
		},
		"extra": s.extra,
		"newest": func(by int64) error {
			s.d.exec(fmt.Sprintf("UPDATE newest SET n = n + %d WHERE k = 'k3'", by))
			return nil
		},
		"hashes":  func(by int64) error { return s.redis.HIncrBy(ctx, h, "c", by).Err() },
		"numbers": func(by int64) error { return s.redis.IncrBy(ctx, n, by).Err() },
	} {
		for _, by := range []int64{1, -1} {
			if err := change(by); err != nil {
				s.t.Fatal(err)
			}
			if a := j.etl("verify", "--finished"); a.OK != (by < 0) {
				s.t.Errorf("verify after a change of %d in %s: exit %d\n%s", by, what, a.Code, a.All)
			}
		}
	}
}

// extra adds a row that no record gives, or takes it away.
func (s *stores) extra(by int64) error {
	if by > 0 {
		return s.redis.Set(context.Background(), s.prefix+"n:nobody", 1, 0).Err()
	}
	return s.redis.Del(context.Background(), s.prefix+"n:nobody").Err()
}

// Effectively once: the process is killed when a batch is written and no checkpoint knows
// of it, when all rows of one are written, and when it is published. Readers of the table
// and of Redis never see a number fall, and in the end every store has the right ones.
func TestIdempotentKilled(t *testing.T) {
	t.Parallel()
	b, d, r := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t)), redistest.Shared(t)
	s := &stores{t: t, d: d, redis: r.Client(t), prefix: r.Prefix()}
	d.exec("CREATE TABLE counts (k text PRIMARY KEY, c int, last int)")
	d.exec("CREATE TABLE newest (k text PRIMARY KEY, n int)")
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	j := newJob(t, b, intoStores, "IN="+in, "OUT="+out, "DSN="+d.admin, "REDIS="+r.Addr(), "PREFIX="+s.prefix)
	j.must("sink init", "--apply", "--role", d.role)
	j.set("DSN=" + d.worker)
	stop, unwatch := feed(t, b, in, 7, 1), s.watch()
	for _, p := range []string{"idempotent.write.after:20", "idempotent.flushed:7", "checkpoint.published:3", "idempotent.write.before:9", "idempotent.write.after:31"} {
		j.faulty(p + ":kill").killed()
	}
	run := j.start().running()
	run.checkpoints(3)
	n := stop()
	want := s.want(n)
	eventually(t, "every store has the last numbers", func() bool { return fmt.Sprint(s.look()) == fmt.Sprint(want) })
	unwatch()
	j.must("stop")
	run.ends(0)
	j.finished()
	s.spoil(j)
	if got := s.look(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after the end: %v, want %v", got, want)
	}
	last := map[string]int{}
	for _, recs := range committed(t, b, out) {
		for _, rec := range recs {
			last[string(rec.Key)] = parse(t, rec).C
		}
	}
	for i := range 7 {
		if k := numberedKey(i); last[k] != want["table "+k] {
			t.Errorf("the topic's last record of %s has %d, want %d", k, last[k], want["table "+k])
		}
	}
}

// A Redis that is killed in the middle of the job, and has every write on disk, costs a
// restart of the attempt and nothing else; one that has forgotten acknowledged rows ends
// the job by name, instead of going on over the hole.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	for log, forgets := range map[string]bool{"yes": false, "no": true} {
		t.Run("appendonly "+log, func(t *testing.T) {
			b, r := kafkatest.Shared(t), redistest.Start(t, redistest.Config{Settings: map[string]string{"appendonly": log}})
			in := b.Topic(t, 2)
			j := newJob(t, b, common+`  cache: { type: redis, address: "${REDIS}" }
`+often+`
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
sinks:
  out: { type: redis, inputs: [in], connection: cache, kind: counter, key: this.k, value: this.n }
`, "IN="+in, "REDIS="+r.Addr())
			stop := feed(t, b, in, 7, 1) // one partition: the last record of a key is the same for everybody
			run := j.start().running()
			run.checkpoints(2)
			r.Kill(t)
			r.Restart(t)
			if forgets {
				run.ends(5)
				if run.count("running") == 0 || !run.said("redis.forgotten") {
					t.Errorf("the log does not say what was lost:\n%s", run.log(5))
				}
				return
			}
			run.message("restarting from the last checkpoint", 1)
			run.checkpoints(4)
			n := stop()
			c := r.Client(t)
			eventually(t, "every key has its last number", func() bool {
				for i := range 7 {
					got, _ := c.Get(t.Context(), numberedKey(i)).Result()
					if got != strconv.Itoa(i+7*((n-i+6)/7-1)) {
						return false
					}
				}
				return true
			})
			j.must("stop")
			run.ends(0)
		})
	}
}

// said reports whether a word is anywhere in the log.
func (r *run) said(word string) bool {
	lines, _ := r.seen()
	for _, l := range lines {
		if strings.Contains(l.text, word) {
			return true
		}
	}
	return false
}
