package transform

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"etl/expr"
	"etl/state"
	"etl/stream"
)

func sales(t testing.TB, when When) Aggregate {
	buy := compile(t, `this.kind == "buy"`, expr.Env{})
	return Aggregate{
		Key: []*expr.Program{compile(t, "this.user", expr.Env{})},
		Aggregations: []Aggregation{
			{Name: "n", Op: Count},
			{Name: "buys", Op: Count, Where: buy},
			{Name: "spent", Op: Sum, Of: compile(t, "this.price * this.qty", expr.Env{}), Where: buy},
			{Name: "least", Op: Min, Of: compile(t, "this.price", expr.Env{}), Where: buy},
			{Name: "first", Op: Min, Of: compile(t, "this.kind", expr.Env{})},
			{Name: "last", Op: Max, Of: compile(t, "this.kind", expr.Env{})},
		},
		Emit: when,
	}
}

// keyedRun keys a batch, processes it and returns what was emitted.
func keyedRun(t testing.TB, keyer *Keyer, op Operator, b *stream.Batch) (values, rejected []string) {
	t.Helper()
	if err := keyer.Key(b, func(i int, err error) { t.Fatalf("record %d: %v", i, err) }); err != nil {
		t.Fatal(err)
	}
	return run(t, op, b)
}

// barrier drains what an operator emits before a barrier.
func barrier(t testing.TB, op Operator, id stream.CheckpointID) (values []string, calls int) {
	t.Helper()
	for {
		out := &fakeOutput{}
		more, err := op.(BeforeBarrier).BeforeBarrier(context.Background(), id, out)
		if err != nil {
			t.Fatal(err)
		}
		calls++
		for _, b := range out.batches {
			for _, r := range b.Records {
				if r.Hash != stream.Hash(r.Group) || r.Pos != -1 {
					t.Fatalf("emitted %+v", r)
				}
			}
		}
		values = append(values, out.take()...)
		if !more {
			return values, calls
		}
	}
}

func TestAggregateOnChange(t *testing.T) {
	a := sales(t, OnChange)
	op := opened(t, a.New(), newFakeKeyed())
	values, rejected := keyedRun(t, NewKeyer(a.Key), op, input(
		`{"user":7,"kind":"pv"}`,
		`{"user":7,"kind":"buy","price":10.50,"qty":2}`,
		`{"user":7.0,"kind":"buy","price":9,"qty":1}`,
		`{"user":"7","kind":"cart"}`,
		`{"user":7,"kind":"buy","price":"dear","qty":1}`,
		`{"user":7,"kind":"buy","qty":1}`,
		`{"user":7}`,
	))
	equal(t, "emitted", values,
		`{"user":7,"n":1,"buys":0,"spent":0,"least":null,"first":"pv","last":"pv"}`,
		`{"user":7,"n":2,"buys":1,"spent":21.00,"least":10.50,"first":"buy","last":"pv"}`,
		`{"user":7,"n":3,"buys":2,"spent":30.00,"least":9,"first":"buy","last":"pv"}`,
		`{"user":"7","n":1,"buys":0,"spent":0,"least":null,"first":"cart","last":"cart"}`)
	equal(t, "rejected", rejected, "4 "+expr.CodeType, "5 "+expr.CodeNull, "6 "+CodeNull)
}

// TestAggregateOnCheckpoint: each changed key once per epoch, in bounded steps.
func TestAggregateOnCheckpoint(t *testing.T) {
	a := Aggregate{Key: []*expr.Program{compile(t, "this.user", expr.Env{})}, Aggregations: []Aggregation{
		{Name: "n", Op: Count}, {Name: "buys", Op: Count, Where: compile(t, "this.buy", expr.Env{})}}}
	k := newFakeKeyed()
	op := opened(t, a.New(), k)
	var recs []string
	for i := range 1500 {
		recs = append(recs, fmt.Sprintf(`{"user":%d,"buy":%v}`, i%1200, i%2 == 0))
	}
	if values, _ := keyedRun(t, NewKeyer(a.Key), op, input(recs...)); len(values) != 0 {
		t.Errorf("%d records before the barrier", len(values))
	}
	values, calls := barrier(t, op, 1)
	if len(values) != 1200 || calls < 3 || values[0] != `{"user":0,"n":2,"buys":2}` || values[1199] != `{"user":1199,"n":1,"buys":0}` {
		t.Errorf("%d values in %d calls, %v", len(values), calls, values[0])
	}
	k.snapshot()
	if values, _ := barrier(t, op, 2); len(values) != 0 {
		t.Errorf("%d values in an epoch without changes", len(values))
	}
	keyedRun(t, NewKeyer(a.Key), op, input(`{"user":5,"buy":true}`))
	values, _ = barrier(t, op, 3)
	equal(t, "third epoch", values, `{"user":5,"n":3,"buys":1}`)
}

func TestAggregateOfSeveralKeys(t *testing.T) {
	a := Aggregate{Emit: OnChange, Aggregations: []Aggregation{{Name: "n", Op: Count}},
		Key: []*expr.Program{compile(t, "this.at.country", expr.Env{}), compile(t, "upper(this.seg)", expr.Env{})}}
	op := opened(t, a.New(), newFakeKeyed())
	values, _ := keyedRun(t, NewKeyer(a.Key), op, input(`{"at":{"country":"D,\"E"},"seg":"x"}`))
	equal(t, "emitted", values, `{"country":"D,\"E","key1":"X","n":1}`)
	schema, err := a.OutputSchema(nil)
	if err != nil || schema.Type.String() != "{country: any, key1: string, n: int}" || schema.Alias["key[0]"] != "country" || schema.Alias["key[1]"] != "key1" {
		t.Errorf("schema %v %v %v", schema.Type, schema.Alias, err)
	}
	p := compile(t, "this.key[1] + string(this.n)", expr.Env{This: schema})
	if v, err := expr.NewEvaluator().AppendText(nil, p, &stream.Record{Value: []byte(values[0])}); err != nil || string(v) != "X1" {
		t.Errorf("behind it: %s, %v", v, err)
	}
}

func TestAggregateSchema(t *testing.T) {
	orders := &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Object, Fields: []stream.Field{
		{Name: "user", Type: stream.Type{Kind: stream.Int}}, {Name: "qty", Type: stream.Type{Kind: stream.Int}}, {Name: "note", Type: stream.Type{Kind: stream.String}}}}}
	env := expr.Env{This: orders}
	a := Aggregate{Key: []*expr.Program{compile(t, "this.user", env)}, Aggregations: []Aggregation{
		{Name: "n", Op: Count}, {Name: "pieces", Op: Sum, Of: compile(t, "this.qty", env)}, {Name: "half", Op: Sum, Of: compile(t, "this.qty / 2", env)}, {Name: "top", Op: Max, Of: compile(t, "this.note", env)}}}
	schema, err := a.OutputSchema(orders)
	if err != nil || schema.Type.String() != "{user: int, n: int, pieces: int, half: decimal, top: string}" || schema.Alias["key"] != "user" {
		t.Errorf("schema %v %v %v", schema.Type, schema.Alias, err)
	}
	if d := a.Descriptors()[0]; d.Serializer != "aggregate/1(n:count,pieces:sum,half:sum,top:max)" {
		t.Errorf("serializer %s", d.Serializer)
	}
	a.Aggregations[0].Name = "user"
	if _, err := a.OutputSchema(orders); stream.CodeOf(err) != "aggregate.duplicate_name" {
		t.Errorf("a result named as the key: %v", err)
	}
}

// TestSumBorders: ints stay in 64 bits or are refused, decimals grow.
func TestSumBorders(t *testing.T) {
	ints := Aggregate{Emit: OnChange, Key: []*expr.Program{compile(t, `"all"`, expr.Env{})},
		Aggregations: []Aggregation{{Name: "s", Op: Sum, Of: compile(t, "int(this.v)", expr.Env{})}}}
	op := opened(t, ints.New(), newFakeKeyed())
	values, rejected := keyedRun(t, NewKeyer(ints.Key), op, input(`{"v":9223372036854775806}`, `{"v":1}`, `{"v":1}`, `{"v":-5}`))
	equal(t, "ints", values, `{"key":"all","s":9223372036854775806}`, `{"key":"all","s":9223372036854775807}`, `{"key":"all","s":9223372036854775802}`)
	equal(t, "rejected", rejected, "2 "+CodeOverflow)

	any := ints
	any.Aggregations = []Aggregation{{Name: "s", Op: Sum, Of: compile(t, "this.v", expr.Env{})}, {Name: "m", Op: Max, Of: compile(t, "this.v", expr.Env{})}}
	op = opened(t, any.New(), newFakeKeyed())
	values, rejected = keyedRun(t, NewKeyer(any.Key), op, input(`{"v":9223372036854775807}`, `{"v":1}`, `{"v":0.25}`, `{"v":1e30}`, `{"v":-1e30}`, `{"v":"1"}`, `{"v":1e2000}`))
	equal(t, "decimals", values, `{"key":"all","s":9223372036854775807,"m":9223372036854775807}`,
		`{"key":"all","s":9223372036854775808,"m":9223372036854775807}`,
		`{"key":"all","s":9223372036854775808.25,"m":9223372036854775807}`,
		`{"key":"all","s":1000000000009223372036854775808.25,"m":1000000000000000000000000000000}`,
		`{"key":"all","s":9223372036854775808.25,"m":1000000000000000000000000000000}`)
	equal(t, "rejected", rejected, "5 "+CodeKind, "6 "+expr.CodeRange)
}

func TestCountText(t *testing.T) {
	d := CountText(OnChange)
	op := opened(t, d.New(), newFakeKeyed())
	b := input("a", "b", "c")
	b.Records[1].Key = []byte("other")
	if err := RecordKey().Key(b, nil); err != nil {
		t.Fatal(err)
	}
	out := &fakeOutput{}
	if err := op.Process(context.Background(), b, out); err != nil {
		t.Fatal(err)
	}
	if r := out.batches[0].Records; string(r[2].Key) != "k" || string(r[1].Key) != "other" || r[2].Offset != 2 {
		t.Errorf("got %+v", r)
	}
	equal(t, "counts", out.take(), "1", "1", "2")
	b.Release()
}

// model is the oracle of TestAggregateModel: exact results per key in another
// arithmetic.
type model struct {
	n     int64
	sum   *big.Rat
	least *big.Rat
	top   string
}

type sale struct {
	key, price, tag string
	bad             bool
}

func drawSale(t *rapid.T) sale {
	s := sale{key: rapid.SampledFrom([]string{"1", "2", `"a"`, `"b\u00e9"`, "12345678901234567890", "true"}).Draw(t, "key"),
		price: rapid.StringMatching(`-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,4})?`).Draw(t, "price"),
		tag:   rapid.StringMatching(`[a-z]{0,12}`).Draw(t, "tag")}
	if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
		s.price, s.bad = `"x"`, true
	}
	return s
}

func (s sale) json() string { return fmt.Sprintf(`{"k":%s,"p":%s,"t":%q}`, s.key, s.price, s.tag) }

func (m *model) add(s sale) {
	p, _ := new(big.Rat).SetString(s.price)
	m.n++
	m.sum.Add(m.sum, p)
	if m.least == nil || p.Cmp(m.least) < 0 {
		m.least = p
	}
	m.top = max(m.top, s.tag)
}

// check compares one emitted object with the model of its key.
func (m *model) check(t *rapid.T, value string) {
	var got struct {
		N        int64
		Sum, Low json.Number
		Top      string
	}
	if err := json.Unmarshal([]byte(value), &got); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	sum, _ := new(big.Rat).SetString(string(got.Sum))
	low, _ := new(big.Rat).SetString(string(got.Low))
	if got.N != m.n || sum.Cmp(m.sum) != 0 || low.Cmp(m.least) != 0 || got.Top != m.top {
		t.Fatalf("got %s, want n %d, sum %s, low %s, top %s", value, m.n, m.sum.FloatString(4), m.least.FloatString(4), m.top)
	}
}

// TestAggregateModel feeds random batches with bad records among them, takes
// checkpoints, and restarts from snapshot bytes at random, replaying what came
// after; the results are those of a model in rational numbers throughout.
func TestAggregateModel(t *testing.T) {
	a := Aggregate{Key: []*expr.Program{compile(t, "this.k", expr.Env{})}, Aggregations: []Aggregation{
		{Name: "n", Op: Count}, {Name: "sum", Op: Sum, Of: compile(t, "this.p", expr.Env{})},
		{Name: "low", Op: Min, Of: compile(t, "this.p", expr.Env{})}, {Name: "top", Op: Max, Of: compile(t, "this.t", expr.Env{})}}}
	keyer := NewKeyer(a.Key)
	rapid.Check(t, func(rt *rapid.T) {
		a.Emit = When(rapid.IntRange(0, 1).Draw(rt, "emit"))
		k, models := newFakeKeyed(), map[string]*model{}
		snapshot, since := k.snapshot(), []sale(nil)
		op := opened(t, a.New(), k)
		for id := range rapid.IntRange(1, 6).Draw(rt, "steps") {
			batch := rapid.SliceOfN(rapid.Custom(drawSale), 0, 100).Draw(rt, "batch")
			feed(t, rt, keyer, op, a.Emit, batch, models)
			since = append(since, batch...)
			switch rapid.SampledFrom([]string{"go on", "checkpoint", "crash"}).Draw(rt, "then") {
			case "checkpoint":
				checkEpoch(t, rt, op, a.Emit, since, models, stream.CheckpointID(id+1))
				snapshot, since = k.snapshot(), nil
			case "crash":
				k = restored(snapshot)
				op = opened(t, a.New(), k)
				feed(t, rt, keyer, op, OnCheckpoint, since, nil)
			}
		}
	})
}

// feed processes a batch; models is nil for a replay, of which the output is not
// looked at.
func feed(t *testing.T, rt *rapid.T, keyer *Keyer, op Operator, emit When, batch []sale, models map[string]*model) {
	var recs []string
	bad := 0
	for _, s := range batch {
		recs = append(recs, s.json())
		if s.bad {
			bad++
		}
	}
	values, rejected := keyedRun(t, keyer, op, input(recs...))
	if len(rejected) != bad {
		rt.Fatalf("rejected %v, want %d", rejected, bad)
	}
	if models == nil {
		return
	}
	for _, s := range batch {
		if s.bad {
			continue
		}
		if models[s.key] == nil {
			models[s.key] = &model{sum: new(big.Rat)}
		}
		models[s.key].add(s)
		if emit == OnChange {
			models[s.key].check(rt, values[0])
			values = values[1:]
		}
	}
	if len(values) != 0 {
		rt.Fatalf("%d values too many", len(values))
	}
}

// checkEpoch compares what is emitted before a barrier with the models of the keys
// that changed.
func checkEpoch(t *testing.T, rt *rapid.T, op Operator, emit When, since []sale, models map[string]*model, id stream.CheckpointID) {
	values, _ := barrier(t, op, id)
	changed := map[string]string{}
	for _, s := range since {
		if !s.bad {
			changed[s.key] = s.key
		}
	}
	if emit == OnChange {
		changed = nil
	}
	var keys []string
	for _, v := range values {
		key := strings.TrimPrefix(v[:strings.Index(v, `,"n":`)], `{"k":`)
		key = strings.Replace(key, "é", `\u00e9`, 1)
		keys = append(keys, key)
		models[key].check(rt, v)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, sorted(changed)) {
		rt.Fatalf("emitted keys %v, want %v", keys, sorted(changed))
	}
}

// FuzzDecodeCells: bytes of a checkpoint never bring the decoder down, and what it
// takes is written back the same.
func FuzzDecodeCells(f *testing.F) {
	f.Add(appendCells(nil, []cell{{tag: shortNumber, scale: 2, num: 5}, {tag: textValue, text: []byte("ab")}, {tag: longNumber, text: []byte("1e30")}}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, entry []byte) {
		cells := make([]cell, 3)
		if !decodeCells(entry, cells) {
			return
		}
		if back := appendCells(nil, cells); string(back) != string(entry) {
			t.Fatalf("%x became %x", entry, back)
		}
		for i := range cells {
			cells[i].value()
		}
	})
}

var _ state.Keyed = (*fakeKeyed)(nil)
