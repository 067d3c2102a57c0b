package simtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// given is one record of the input that counts.
type given struct {
	offset int64
	rec    *kgo.Record
}

// input writes the input topic and remembers what of it counts: what was written
// plainly, and what was committed. It knows nothing of the job.
type input struct {
	s    *sim
	r    *rand.Rand
	cl   *kgo.Client
	seq  int
	done chan struct{} // closed when all is written

	mu    sync.Mutex
	kept  map[int32][]given
	ends  map[int32]int64 // up to where the job reads; nil: all of it
	parts int32
}

func (s *sim) newInput() *input {
	return &input{s: s, r: s.rand("input"), cl: s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())), done: make(chan struct{}), kept: map[int32][]given{}, parts: inPartitions}
}

// record makes the next record. Some are tombstones, some have empty values, some
// have headers, twice the same among them.
func (in *input) record(part int32) *kgo.Record {
	in.seq++
	p, r := &in.s.plan, in.r
	key := in.key()
	rec := &kgo.Record{Topic: "in", Partition: part, Key: fmt.Append(nil, "k", key), Timestamp: time.UnixMilli(time.Now().UnixMilli() - int64(in.seq%7))}
	rec.Value = fmt.Appendf(nil, `{"n":%d,"items":%s}`, in.seq, items(in.seq))
	if p.shape == passThrough || p.shape == counts {
		switch r.IntN(12) {
		case 0:
			rec.Value = nil
		case 1:
			rec.Value = []byte{}
		}
	}
	if p.shape.fans() && p.second && r.IntN(9) == 0 {
		rec.Value = []byte(notJSON)
	}
	for range r.IntN(3) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "h", Value: fmt.Append(nil, in.seq)})
	}
	return rec
}

// notJSON is a value that cannot be evaluated.
const notJSON = `{"n":`

// key draws a key. When keys drift, each has its time and then rests until the end,
// so that nothing recent repairs what became of old state.
func (in *input) key() int {
	p, r := &in.s.plan, in.r
	switch {
	case p.hot && r.IntN(2) == 0:
		return 0
	case p.drift && in.seq > p.records-2*p.keys:
		return in.seq % p.keys
	case p.drift:
		return (in.seq*p.keys/p.records + r.IntN(3)) % p.keys
	}
	return r.IntN(p.keys)
}

// items is the list in record n: none to three numbers.
func items(n int) string {
	return [...]string{"[]", fmt.Sprintf("[%d]", n), fmt.Sprintf("[%d,%d]", n, -n), fmt.Sprintf("[%d,0,%d]", n, -n)}[n%4]
}

// keep notes records whose fate is that they count.
func (in *input) keep(recs []*kgo.Record) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, r := range recs {
		in.kept[r.Partition] = append(in.kept[r.Partition], given{r.Offset, r})
	}
}

// some makes n records, in runs of one partition.
func (in *input) some(n int) (out []*kgo.Record) {
	part := in.r.Int32N(in.parts)
	for range n {
		if in.r.IntN(3) == 0 {
			part = in.r.Int32N(in.parts)
		}
		out = append(out, in.record(part))
	}
	return out
}

// burst writes some records: plainly, in a transaction, or in one that is aborted.
func (in *input) burst() {
	recs := in.some(1 + in.r.IntN(30))
	switch in.r.IntN(4) {
	case 0:
		in.transaction(recs, true)
	case 1:
		in.transaction(recs, false)
	default:
		in.must(in.cl.ProduceSync(context.Background(), recs...).FirstErr())
		in.keep(recs)
	}
}

func (in *input) must(err error) {
	if err != nil {
		in.s.t.Errorf("seed %d: the input cannot be written: %v", in.s.seed, err)
	}
}

func (in *input) transaction(recs []*kgo.Record, commit bool) {
	cl := in.begin(recs)
	defer cl.Close()
	in.end(cl, recs, commit)
}

// begin writes records in a transaction and leaves it open.
func (in *input) begin(recs []*kgo.Record) *kgo.Client {
	cl := in.s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(fmt.Sprint("input-", in.seq)), kgo.TransactionTimeout(time.Minute))
	in.must(cl.BeginTransaction())
	in.must(cl.ProduceSync(context.Background(), recs...).FirstErr())
	return cl
}

func (in *input) end(cl *kgo.Client, recs []*kgo.Record, commit bool) {
	in.must(cl.EndTransaction(context.Background(), kgo.TransactionEndTry(commit)))
	if commit {
		in.keep(recs)
	}
}

// fill writes all of a bounded input. A transaction at its end may be open: what
// the job reads ends before it.
func (in *input) fill() {
	defer close(in.done)
	for in.seq < in.s.plan.records {
		in.burst()
	}
	if in.s.plan.open != "" {
		recs := in.some(5)
		cl := in.begin(recs)
		more := in.some(5)
		in.must(in.cl.ProduceSync(context.Background(), more...).FirstErr())
		in.keep(more)
		in.s.later(in.r, func() {
			if in.s.plan.open != "forget" {
				in.end(cl, recs, in.s.plan.open == "commit")
			}
			cl.Close()
		})
	}
	in.ends = in.s.stableEnds("in")
}

// flow writes an unbounded input: bursts, and silences in which epochs are empty.
func (in *input) flow() {
	defer close(in.done)
	grow := in.s.plan.records
	if in.r.IntN(3) == 0 {
		grow = in.r.IntN(in.s.plan.records)
	}
	for in.seq < in.s.plan.records {
		in.burst()
		in.wait()
		if in.seq >= grow && in.parts == inPartitions {
			in.growTopic()
		}
	}
	if in.s.plan.open == "" {
		return
	}
	recs := in.some(5)
	cl := in.begin(recs)
	defer cl.Close()
	pause(time.Duration(in.r.IntN(2000)) * time.Millisecond)
	if in.s.plan.open != "forget" {
		in.end(cl, recs, in.s.plan.open == "commit")
	}
}

func (in *input) wait() {
	d := time.Duration(in.r.IntN(30)) * time.Millisecond
	if in.r.IntN(8) == 0 {
		d = time.Duration(in.r.IntN(700)) * time.Millisecond
	}
	pause(d)
}

// growTopic adds a partition while the job runs, or is down.
func (in *input) growTopic() {
	resp, err := kadm.NewClient(in.cl).CreatePartitions(context.Background(), 1, "in")
	if err == nil {
		err = resp.Error()
	}
	in.must(err)
	in.parts++
	in.cl.ForceMetadataRefresh()
	pause(200 * time.Millisecond)
	in.s.cov.add("input/partition added")
}

// expected returns what of the input the job must have read, by partition.
func (in *input) expected() map[int32][]*kgo.Record {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := map[int32][]*kgo.Record{}
	for p, gs := range in.kept {
		slices.SortFunc(gs, func(a, b given) int { return cmp.Compare(a.offset, b.offset) })
		for _, g := range gs {
			if in.ends == nil || g.offset < in.ends[p] {
				out[p] = append(out[p], g.rec)
			}
		}
	}
	return out
}
