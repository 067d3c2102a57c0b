package expr

import (
	"fmt"
	"sync"
	"testing"

	"etl/stream"
)

// TestChainParsesOnce: the operator behind finds the document of the one before.
func TestChainParsesOnce(t *testing.T) {
	first, second := NewEvaluator(), NewEvaluator()
	p := must(t, "this.a", Env{})
	rec := &stream.Record{Value: []byte(`{"a":1}`)}
	for _, ev := range []*Evaluator{first, second, first} {
		if v, err := ev.Value(p, rec); err != nil || v.Kind() != stream.Int {
			t.Fatal(v, err)
		}
	}
	if len(first.docs) != 1 || len(second.docs) != 0 {
		t.Errorf("parsed %d and %d times", len(first.docs), len(second.docs))
	}
}

// TestDocumentOutlived: an evaluator reuses the memory of a document that records
// still point to, and whose values may have been replaced. Nobody may see another
// record's document.
func TestDocumentOutlived(t *testing.T) {
	first, second := NewEvaluator(), NewEvaluator()
	p := must(t, "this.n", Env{})
	recs := make([]stream.Record, 3*keptDocs)
	for i := range recs {
		recs[i] = stream.Record{Value: fmt.Appendf(nil, `{"n":%d}`, i)}
		check(t, first, p, &recs[i], i)
	}
	for i := range recs {
		check(t, second, p, &recs[i], i)
	}
	recs[0].Value = []byte(`{"n":-1}`) // by an operator that forgot to drop Doc
	check(t, second, p, &recs[0], -1)
}

func check(t *testing.T, ev *Evaluator, p *Program, rec *stream.Record, want int) {
	t.Helper()
	if got, err := ev.AppendJSON(nil, p, rec); err != nil || string(got) != fmt.Sprint(want) {
		t.Fatalf("got %s, %v, want %d", got, err, want)
	}
}

// TestTwoTasks: two tasks share programs and nothing else. The second gets copies,
// as from an exchange; under -race a shared document would be found.
func TestTwoTasks(t *testing.T) {
	p := must(t, `lower(this.s) + "!" + string(this.n)`, Env{})
	first := NewEvaluator()
	edge := make(chan *stream.Batch, 4)
	var done sync.WaitGroup
	done.Go(func() {
		second := NewEvaluator()
		for b := range edge {
			for i := range b.Records {
				if _, err := second.AppendJSON(nil, p, &b.Records[i]); err != nil {
					t.Error(err)
				}
			}
			b.Release()
		}
	})
	for i := range 200 {
		b := stream.NewBatch(nil)
		rec := stream.Record{Value: fmt.Appendf(nil, `{"s":"A\u0042","n":%d}`, i)}
		if _, err := first.AppendJSON(nil, p, &rec); err != nil {
			t.Fatal(err)
		}
		b.AppendCopy(&rec)
		edge <- b
	}
	close(edge)
	done.Wait()
}

// TestEachHoldsItsList: programs evaluated inside Each make text and lists of their
// own, and the list goes on unharmed.
func TestEachHoldsItsList(t *testing.T) {
	typ := of(stream.String)
	ev, got := NewEvaluator(), []byte(nil)
	each := must(t, `split(lower(this.s), " ")`, Env{Want: stream.List})
	inner := must(t, `join(split(upper(it + "x"), ""), "-")`, Env{It: &typ})
	rec := &stream.Record{Value: []byte(`{"s":"One TWO three four"}`)}
	err := ev.Each(each, rec, func() (err error) {
		got, err = ev.AppendJSON(got, inner, rec)
		return err
	})
	if want := `"O-N-E-X""T-W-O-X""T-H-R-E-E-X""F-O-U-R-X"`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestNoAllocations: plain paths, comparisons, products and keys make no garbage.
func TestNoAllocations(t *testing.T) {
	ev, out := NewEvaluator(), make([]byte, 0, 4096)
	rec := &stream.Record{Value: events()[0]}
	for _, src := range []string{"this.user.id", "this.item.tags[0]", `this.behavior == "buy"`, `this.behavior in ["buy", "cart"]`, "this.item.qty > 1 and not (this.item.price <= 2.5)",
		"this.item.price * this.item.qty", `split(this.session, "0")`, `this.user.country + "/" + this.user.segment`, "meta.offset", "this.nope ?? 1"} {
		p := must(t, src, Env{})
		once := func() {
			rec.Doc = nil
			if _, err := ev.AppendJSON(out[:0], p, rec); err != nil {
				t.Fatal(err)
			}
		}
		for range keptDocs { // fill the ring of documents
			once()
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("%s: %v allocations", src, n)
		}
	}
}

// TestPanicIsContained: a fault of the evaluator costs the record, not the task.
func TestPanicIsContained(t *testing.T) {
	p := &Program{src: "this.a", run: func(*Evaluator) Value { var none []int; return IntValue(int64(none[3])) }}
	_, err := NewEvaluator().Value(p, &stream.Record{Topic: "t", Offset: 9, Value: []byte("{}")})
	if stream.CodeOf(err) != CodeInternal {
		t.Errorf("got %v", err)
	}
}
