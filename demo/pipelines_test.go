package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// everything is a pipeline with all there is: fan-out, union, every operation, both
// ways to emit, expressions behind aggregates and in sinks.
const everything = `version: 1
name: everything
parallelism: 2
checkpoint: { interval: 300ms, min_pause: 10ms }
http: { address: none }
connections:
  k: { type: kafka, seed_brokers: [%q] }
sources:
  events: { type: kafka, connection: k, topics: [events, more], end: { offsets: %s }, decode: json, on_error: skip }
transforms:
  known:
    type: filter
    inputs: [events]
    where: this.what in ["buy", "cart", "fav"]
    on_error: skip
  items:
    type: flat_map
    inputs: [known]
    each: this.items
    where: it.qty > 0
    map: { user: this.user, sku: it.sku, cost: it.qty * it.price }
    on_error: skip
  per_user:
    type: aggregate
    inputs: [known]
    key: this.user
    aggregates:
      n: { op: count }
      buys: { op: count, where: this.what == "buy" }
      last: { op: max, of: this.at }
    emit: on_checkpoint
  per_item:
    type: aggregate
    inputs: [items]
    key: [this.user, this.sku]
    aggregates:
      cost: { op: sum, of: this.cost }
      least: { op: min, of: this.cost }
    emit: on_change
  shown:
    type: map
    inputs: [per_item]
    map: { who: this.user, sku: this.sku, cost: this.cost, cheap: this.least < 3 }
sinks:
  copies: { type: kafka, inputs: [known], connection: k, topic: copies }
  all: { type: kafka, inputs: [items, shown], connection: k, topic: all, key: this.sku }
  users: { type: kafka, inputs: [per_user], connection: k, topic: users, key: this.user, map: { user: this.user, n: this.n, buys: this.buys, last: this.last } }
`

func events(rng *rand.Rand, n int) (out []*kgo.Record) {
	for i := range n {
		r := &kgo.Record{Topic: []string{"events", "more"}[rng.IntN(2)], Partition: int32(rng.IntN(partitions)), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i/7))}
		items := make([]string, rng.IntN(4))
		for j := range items {
			items[j] = fmt.Sprintf(`{"sku":"s%d","qty":%d,"price":%d.%02d}`, rng.IntN(5), rng.IntN(4), rng.IntN(3), rng.IntN(100))
		}
		r.Value = fmt.Appendf(nil, `{"user":%d,"what":%q,"at":"t%04d","items":[%s]}`, rng.IntN(40), []string{"buy", "cart", "fav", "pv"}[rng.IntN(4)], rng.IntN(5000), strings.Join(items, ","))
		switch rng.IntN(20) {
		case 0:
			r.Value = []byte(`{"user":`)
		case 1:
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte{}}}
			r.Key = []byte{}
		case 2:
			r.Key = []byte("key")
		}
		out = append(out, r)
	}
	return out
}

// etl verify agrees with etl run about everything a pipeline can hold, also after
// kills; and does not agree when a row is missing.
func TestVerifyAgreesWithRun(t *testing.T) {
	t.Parallel()
	w := worker(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "events", "more", "copies", "all", "users"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	recs := events(rand.New(rand.NewPCG(1, 1)), 6000)
	ends := map[string]map[int32]int{"events": {0: 0, 1: 0, 2: 0}, "more": {0: 0, 1: 0, 2: 0}}
	for _, r := range recs {
		ends[r.Topic][r.Partition]++
	}
	bounds, _ := json.Marshal(ends)
	dir := t.TempDir()
	file := filepath.Join(dir, "everything.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, everything, c.ListenAddrs()[0], bounds), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, fault := range []string{"checkpoint.published:2:kill", "log.append.checkpoint.before:3:kill", ""} {
		part := recs[i*2000 : (i+1)*2000]
		if err := cl.ProduceSync(t.Context(), part[:1000]...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		late := make(chan error, 1)
		go func() {
			<-time.After(600 * time.Millisecond) // into another checkpoint
			late <- cl.ProduceSync(t.Context(), part[1000:]...).FirstErr()
		}()
		out, err := runEtl(t, w, dir, "ETL_FAULT="+fault, "run", file)
		if (err == nil) != (fault == "") {
			t.Fatalf("run with fault %q: %v\n%s", fault, err, out)
		}
		if err := <-late; err != nil {
			t.Fatal(err)
		}
	}
	out, err := runEtl(t, w, dir, "", "verify", file, "--finished", "--settle", "0s")
	t.Log("\n" + out)
	if err != nil || !strings.Contains(out, "missing 0  duplicated 0  altered 0  out of order 0  behind 0  uncommitted 0   OK") {
		t.Errorf("verify: %v", err)
	}
	if err := cl.ProduceSync(t.Context(), recs[17]).FirstErr(); err != nil {
		t.Fatal(err)
	}
	stray := &kgo.Record{Topic: "users", Partition: 1, Key: []byte("1"), Value: []byte(`{"user":1,"n":3,"buys":3,"last":"t1"}`)}
	if err := cl.ProduceSync(t.Context(), stray).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if out, err = runEtl(t, w, dir, "", "verify", file, "--finished", "--settle", "0s"); err == nil || !strings.Contains(out, "NOT OK") {
		t.Errorf("verify of a stray row: %v\n%s", err, out)
	}
}

func runEtl(t *testing.T, w Executable, dir, env string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), string(w), append([]string{"--data-dir", dir}, args...)...)
	cmd.Env = append(os.Environ(), env)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
