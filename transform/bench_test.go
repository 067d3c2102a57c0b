package transform

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/valyala/fastjson"

	"etl/expr"
	"etl/state"
	"etl/stream"
)

// cpu reports the CPU time per record.
func cpu(b *testing.B, records int) func() {
	used := func() (ns int64) {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
			ns = u.Utime.Nano() + u.Stime.Nano()
		}
		return ns
	}
	b.ReportAllocs()
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N)/float64(records), "cpu-ns/record") }
}

// slots is keyed state that costs next to nothing, so that the operator is seen.
type slots struct {
	values [1 << 12][]byte
}

func (k *slots) Batch(_ context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	for i := range keys {
		refs[i] = state.Ref{E: k, At: hashes[i] & (1<<12 - 1)}
	}
	return nil
}
func (k *slots) Get(at uint64) ([]byte, bool) { return k.values[at], k.values[at] != nil }
func (k *slots) Mutable(at uint64, n int) []byte {
	if len(k.values[at]) != n {
		k.values[at] = append(make([]byte, 0, n), k.values[at][:min(n, len(k.values[at]))]...)[:n]
	}
	return k.values[at]
}
func (k *slots) Delete(at uint64)                                       { k.values[at] = nil }
func (k *slots) Dirty(int, func([]byte, []byte, bool) bool) (int, bool) { return 0, false }

// discard is an output that gives everything back.
type discard struct{ t testing.TB }

func (discard) Emit(stream.Record)                      {}
func (discard) Batch() *stream.Batch                    { return nil }
func (discard) EmitBatch(b *stream.Batch)               { b.Release() }
func (discard) Side(stream.Tag, stream.Record)          {}
func (discard) SideBatch(_ stream.Tag, b *stream.Batch) { b.Release() }
func (d discard) Reject(_ stream.Record, e error)       { d.t.Fatal(e) }

const batchSize = 512

func benchRecords() []stream.Record {
	var recs []stream.Record
	for i := range batchSize {
		v := fmt.Sprintf(`{"event_id":"0d9e8a6e-7c3b-4d1e-9a55-4f6f1c2b7a10","user":{"id":%d,"country":"DE","segment":"gold"},"behavior":"%s","item":{"id":"sku-88213","price":12.50,"qty":3,"tags":["a","b"]},"placed_at":"2026-11-29T10:11:12.123Z","session":"c0ffee00c0ffee00"}`,
			i*7919%4000, []string{"buy", "pv", "cart", "fav"}[i%4])
		recs = append(recs, stream.Record{Topic: "in", Key: []byte(strconv.Itoa(i * 7919 % 4000)), Value: []byte(v)})
	}
	return recs
}

// benchOperator runs an operator over a batch of 512 records, again and again.
func benchOperator(b *testing.B, keyer *Keyer, ops ...Operator) {
	recs, k := benchRecords(), &slots{}
	for _, op := range ops {
		if err := op.Open(context.Background(), Env{Keyed: k}); err != nil {
			b.Fatal(err)
		}
	}
	defer cpu(b, batchSize)()
	for b.Loop() {
		batch := stream.NewBatch(nil)
		batch.Records = append(batch.Records, recs...)
		if keyer != nil {
			if err := keyer.Key(batch, func(_ int, err error) { b.Fatal(err) }); err != nil {
				b.Fatal(err)
			}
		}
		for _, op := range ops {
			out := &chained{discard: discard{b}}
			if err := op.Process(context.Background(), batch, out); err != nil {
				b.Fatal(err)
			}
			batch.Release()
			if batch = out.last; batch == nil {
				break
			}
		}
		if batch != nil {
			batch.Release()
		}
	}
}

// chained hands the one batch that is emitted to the next operator.
type chained struct {
	discard
	last *stream.Batch
}

func (c *chained) EmitBatch(b *stream.Batch) { c.last = b }

func behaviourCounts(b *testing.B, when When) Aggregate {
	is := func(what string) *expr.Program { return compile(b, `this.behavior == "`+what+`"`, expr.Env{}) }
	return Aggregate{Emit: when, Key: []*expr.Program{compile(b, "this.user.id", expr.Env{})}, Aggregations: []Aggregation{
		{Name: "buy", Op: Count, Where: is("buy")}, {Name: "cart", Op: Count, Where: is("cart")}, {Name: "fav", Op: Count, Where: is("fav")},
		{Name: "spent", Op: Sum, Of: compile(b, "this.item.price * this.item.qty", expr.Env{}), Where: is("buy")}}}
}

func BenchmarkCountText(b *testing.B) { benchOperator(b, RecordKey(), CountText(OnCheckpoint).New()) }
func BenchmarkCountTextOnChange(b *testing.B) {
	benchOperator(b, RecordKey(), CountText(OnChange).New())
}

// BenchmarkBehaviourCounts decodes strictly, keys and counts.
func BenchmarkBehaviourCounts(b *testing.B) {
	a := behaviourCounts(b, OnCheckpoint)
	decode := Decode{Schema: &stream.Schema{Format: stream.JSON}, Strict: true}.New()
	key := rekey{keyer: NewKeyer(a.Key), t: b}
	benchOperator(b, nil, decode, key, a.New())
}

// rekey is what the engine does between two operators.
type rekey struct {
	stateless
	keyer *Keyer
	t     testing.TB
}

func (k rekey) Process(_ context.Context, b *stream.Batch, out Output) error {
	b.Retain()
	out.EmitBatch(b)
	return k.keyer.Key(b, func(_ int, err error) { k.t.Fatal(err) })
}

// BenchmarkBehaviourCountsFloor is the same by hand, without strictness, exactness
// or batches.
func BenchmarkBehaviourCountsFloor(b *testing.B) {
	recs := benchRecords()
	type counts struct {
		buy, cart, fav int64
		spent          float64
	}
	users := map[int64]*counts{}
	var p fastjson.Parser
	defer cpu(b, batchSize)()
	for b.Loop() {
		for i := range recs {
			v, err := p.ParseBytes(recs[i].Value)
			if err != nil {
				b.Fatal(err)
			}
			id := v.GetInt64("user", "id")
			c := users[id]
			if c == nil {
				c = &counts{}
				users[id] = c
			}
			switch string(v.GetStringBytes("behavior")) {
			case "buy":
				c.buy++
				c.spent += v.GetFloat64("item", "price") * v.GetFloat64("item", "qty")
			case "cart":
				c.cart++
			case "fav":
				c.fav++
			}
		}
	}
}

// BenchmarkFilterMap decodes strictly, filters and maps, chained.
func BenchmarkFilterMap(b *testing.B) {
	decode := Decode{Schema: &stream.Schema{Format: stream.JSON}, Strict: true}.New()
	benchOperator(b, nil, decode, filterOp(b), mapOp(b))
}

// BenchmarkFilterMapUnchecked is the part behind the source.
func BenchmarkFilterMapUnchecked(b *testing.B) { benchOperator(b, nil, filterOp(b), mapOp(b)) }

func filterOp(b *testing.B) Operator {
	return Filter{Where: compile(b, `this.behavior in ["buy", "cart", "fav"]`, expr.Env{})}.New()
}

func mapOp(b *testing.B) Operator {
	return Map{fields(b, expr.Env{}, "user", "this.user.id", "country", "this.user.country", "item", "this.item.id", "at", "this.placed_at", "total", "this.item.price * this.item.qty")}.New()
}

// BenchmarkWords splits a line of text into words, each an object.
func BenchmarkWords(b *testing.B) {
	schema := &stream.Schema{Format: stream.Text}
	each := compile(b, `split(lower(trim(this.value)), " ")`, expr.Env{This: schema, Want: stream.List})
	it := ElementType(each)
	env := expr.Env{This: schema, It: &it}
	benchLines(b, FlatMap{Each: each, Where: compile(b, `it != ""`, env), Map: fields(b, env, "word", "it")}.New())
}

// BenchmarkWordsFloor is the same by hand.
func BenchmarkWordsFloor(b *testing.B) {
	var buf []byte
	benchLines(b, FlatMapFunc(nil, func(r *stream.Record, emit func(stream.Record)) error {
		for w := range strings.SplitSeq(strings.ToLower(strings.TrimSpace(string(r.Value))), " ") {
			if w == "" {
				continue
			}
			buf = append(append(append(buf[:0], `{"word":"`...), w...), `"}`...)
			c := *r
			c.Value = buf
			emit(c)
		}
		return nil
	}))
}

func benchLines(b *testing.B, op Operator) {
	line := []byte("It was the best of times, it was the worst of times ")
	defer cpu(b, batchSize)()
	for b.Loop() {
		batch := stream.NewBatch(nil)
		for range batchSize {
			batch.Append(stream.Record{Value: line})
		}
		if err := op.Process(context.Background(), batch, discard{b}); err != nil {
			b.Fatal(err)
		}
		batch.Release()
	}
}
