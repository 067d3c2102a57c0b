package kafkatxn

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// The vectors of Apache Kafka's own test of its hash.
func TestMurmur2Golden(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

func TestPartitionsAreThoseOfJava(t *testing.T) {
	theirs := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	rapid.Check(t, func(t *rapid.T) {
		r := &kgo.Record{Key: rapid.SliceOf(rapid.Byte()).Draw(t, "key"), Partition: ByKey}
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		var p Partitioner
		if got, want := p.Partition(r, n), theirs.Partition(r, n); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

func TestPartitionChoice(t *testing.T) {
	p := Partitioner{First: 1}
	explicit := &kgo.Record{Partition: 2, Key: []byte("k")}
	if p.Partition(explicit, 3) != 2 || !p.RequiresConsistency(explicit) {
		t.Error("an explicit partition counts")
	}
	empty := &kgo.Record{Partition: ByKey, Key: []byte{}}
	if !p.RequiresConsistency(empty) || p.Partition(empty, 1<<20) != int(murmur2(nil)&0x7fffffff)%(1<<20) {
		t.Error("an empty key is a key")
	}
	null := &kgo.Record{Partition: ByKey, Value: make([]byte, 1000)}
	if p.RequiresConsistency(null) {
		t.Error("a row without a key goes where there is a leader")
	}
	seen, changes, last := map[int]int{}, 0, -1
	for range 1000 {
		n := p.Partition(null, 3)
		if n != last {
			changes++
		}
		seen[n]++
		last = n
	}
	if len(seen) != 3 || changes > 30 {
		t.Errorf("%v in %d runs: rows without a key fill a request, then move on", seen, changes)
	}
}
