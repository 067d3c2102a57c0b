package pebbledb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etl/state/keyed"
	"etl/state/pebbledb"
)

func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReplaceChain is what it costs to replace a long chain of state that
// fits into memory, by a full segment or by a base: a million entries of 8 and 64
// bytes, of which every tenth, or every, has changed. It is why a base is made
// only when memory does not suffice.
func BenchmarkReplaceChain(b *testing.B) {
	const keys = 1_000_000
	for _, base := range []bool{false, true} {
		for _, changed := range []int{keys / 10, keys} {
			b.Run(fmt.Sprintf("base=%v/changed=%d", base, changed), func(b *testing.B) {
				r := newRig(b, b.TempDir(), func(c *pebbledb.Config) {
					c.Memory = 1 << 30
					c.Policy = keyed.Policy{SegmentBytes: 1, Base: base, Full: !base}
				})
				must(b, r.start())
				defer r.stop()
				must(b, r.write(count(keys), 1))
				must(b, r.checkpoint(true))
				r.b.Rest()
				b.ResetTimer()
				c := cpu()
				for i := range b.N {
					rnd := rand.New(rand.NewPCG(uint64(i), 7))
					must(b, r.write(func(yield func(uint64) bool) {
						for range changed {
							if !yield(rnd.Uint64N(keys)) {
								return
							}
						}
					}, uint64(i+2)))
					must(b, r.checkpoint(true))
					r.b.Rest()
				}
				b.ReportMetric(float64(cpu()-c)/float64(b.N)/1e6, "cpu-ms/op")
			})
		}
	}
}

// BenchmarkMiss is a lookup of 64 keys that all have to be read from the base.
func BenchmarkMiss(b *testing.B) {
	const keys = 500_000
	r := newRig(b, b.TempDir(), func(c *pebbledb.Config) {
		c.Memory = 16 << 20
		c.Policy = keyed.Policy{SegmentBytes: 64 << 20}
	})
	must(b, r.start())
	defer r.stop()
	for part := range uint64(50) {
		must(b, r.write(func(yield func(uint64) bool) {
			for k := part * keys / 50; k < (part+1)*keys/50 && yield(k); k++ {
			}
		}, 1))
		must(b, r.checkpoint(true))
		r.b.Rest()
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	ids := make([]uint64, 64)
	before := r.b.Stats().BaseReads
	b.ResetTimer()
	c := cpu()
	for range b.N {
		for i := range ids {
			ids[i] = rnd.Uint64N(keys)
		}
		r.lookup(ids)
		must(b, r.store.Batch(context.Background(), r.keys, r.hashes, r.refs))
	}
	reads := float64(r.b.Stats().BaseReads - before)
	b.ReportMetric(float64(cpu()-c)/reads, "cpu-ns/miss")
	b.ReportMetric(reads/float64(b.N)/64, "misses/key")
}
