package expr

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/valyala/fastjson"

	"etl/stream"
)

// The job of these benchmarks: keep records whose behavior is buy, cart or fav (3
// of 4 are), read six fields up to two levels deep, multiply two, write an object
// of five. The floor is what one would write by hand in Go.

func events() [][]byte {
	var all [][]byte
	for _, b := range []string{"buy", "pv", "cart", "fav"} {
		all = append(all, []byte(`{"event_id":"0d9e8a6e-7c3b-4d1e-9a55-4f6f1c2b7a10","user":{"id":104729,"country":"DE","segment":"gold"},`+
			`"behavior":"`+b+`","item":{"id":"sku-88213","price":12.50,"qty":3,"tags":["a","b"]},"placed_at":"2026-11-29T10:11:12.123Z",`+
			`"session":"c0ffee00c0ffee00","referrer":"https://example.com/campaign?x=1"}`))
	}
	return all
}

// cpu reports the CPU time per operation, which other work on the machine disturbs
// less than the time that passes.
func cpu(b *testing.B) func() {
	b.ReportAllocs()
	used := func() (ns int64) {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
			ns = u.Utime.Nano() + u.Stime.Nano()
		}
		return ns
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

// batch returns the events as records, parsed by nobody.
func batch() []stream.Record {
	var recs []stream.Record
	for _, e := range events() {
		recs = append(recs, stream.Record{Value: e})
	}
	return recs
}

// unparsed returns a record that nobody has parsed.
func unparsed(recs []stream.Record, i int) *stream.Record {
	rec := &recs[i%len(recs)]
	rec.Doc = nil
	return rec
}

func must(b testing.TB, src string, env Env) *Program {
	b.Helper()
	p, err := Compile(src, env)
	if err != nil {
		b.Fatalf("%s: %v", src, err)
	}
	return p
}

func BenchmarkMap300B(b *testing.B) {
	where := must(b, `this.behavior in ["buy", "cart", "fav"]`, Env{Want: stream.Bool})
	names := []string{"user", "country", "item", "at", "total"}
	var programs []*Program
	for _, src := range []string{"this.user.id", "this.user.country", "this.item.id", "this.placed_at", "this.item.price * this.item.qty"} {
		programs = append(programs, must(b, src, Env{}))
	}
	fields := NewFields(names, programs)
	ev, recs, out := NewEvaluator(), batch(), []byte(nil)
	defer cpu(b)()
	for i := 0; b.Loop(); i++ {
		rec := unparsed(recs, i)
		ok, err := ev.Bool(where, rec)
		if err != nil {
			b.Fatal(err)
		}
		if !ok {
			continue
		}
		if out, err = ev.AppendFields(out[:0], fields, rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMap300BFloor(b *testing.B) {
	all, out := events(), []byte(nil)
	var p fastjson.Parser
	defer cpu(b)()
	for i := 0; b.Loop(); i++ {
		v, err := p.ParseBytes(all[i%4])
		if err != nil {
			b.Fatal(err)
		}
		switch string(v.GetStringBytes("behavior")) {
		case "buy", "cart", "fav":
			out = byHand(out[:0], v)
		}
	}
}

func byHand(out []byte, v *fastjson.Value) []byte {
	user, item := v.Get("user"), v.Get("item")
	out = append(out, `{"user":`...)
	out = user.Get("id").MarshalTo(out)
	out = append(out, `,"country":`...)
	out = user.Get("country").MarshalTo(out)
	out = append(out, `,"item":`...)
	out = item.Get("id").MarshalTo(out)
	out = append(out, `,"at":`...)
	out = v.Get("placed_at").MarshalTo(out)
	out = append(out, `,"total":`...)
	out = strconv.AppendFloat(out, item.GetFloat64("price")*item.GetFloat64("qty"), 'f', -1, 64)
	return append(out, '}')
}

func BenchmarkFilter300B(b *testing.B) {
	where := must(b, `this.behavior in ["buy", "cart", "fav"] and this.item.qty > 1`, Env{Want: stream.Bool})
	ev, recs := NewEvaluator(), batch()
	defer cpu(b)()
	for i := 0; b.Loop(); i++ {
		rec := unparsed(recs, i)
		if _, err := ev.Bool(where, rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFilter300BFloor(b *testing.B) {
	all := events()
	var p fastjson.Parser
	kept := 0
	defer cpu(b)()
	for i := 0; b.Loop(); i++ {
		v, err := p.ParseBytes(all[i%4])
		if err != nil {
			b.Fatal(err)
		}
		switch string(v.GetStringBytes("behavior")) {
		case "buy", "cart", "fav":
			if v.GetInt64("item", "qty") > 1 {
				kept++
			}
		}
	}
}

func BenchmarkEvalOnly(b *testing.B) {
	for _, src := range []string{
		`this.behavior == "buy"`, `this.behavior in ["buy", "cart", "fav"]`, "this.item.qty > 1", "this.user.id",
		"this.item.price * this.item.qty", `split(lower(this.session), "0")`, "filter(this.item.tags, # != \"a\")",
	} {
		b.Run(src, func(b *testing.B) {
			p, ev, out := must(b, src, Env{}), NewEvaluator(), []byte(nil)
			rec := stream.Record{Value: events()[0]}
			defer cpu(b)()
			for b.Loop() {
				var err error
				if out, err = ev.AppendJSON(out[:0], p, &rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkKey(b *testing.B) {
	keys := []*Program{must(b, "this.user.id", Env{})}
	ev, recs, out := NewEvaluator(), batch(), []byte(nil)
	defer cpu(b)()
	for i := 0; b.Loop(); i++ {
		rec := unparsed(recs, i)
		var err error
		if out, err = ev.AppendKey(out[:0], keys, rec); err != nil {
			b.Fatal(err)
		}
	}
}
