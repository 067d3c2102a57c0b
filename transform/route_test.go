package transform

import (
	"context"
	"testing"

	"etl/expr"
	"etl/stream"
)

// routed runs a batch through a route and returns "output value" and rejects.
func routed(t *testing.T, op Operator, b *stream.Batch) (out *fakeOutput) {
	t.Helper()
	out = &fakeOutput{}
	if err := op.Process(context.Background(), b, out); err != nil {
		t.Fatal(err)
	}
	if len(out.batches) > 0 {
		t.Error("something went to the main output")
	}
	return out
}

// TestRoute: the first case that takes a record has it, and nothing is lost: what no
// case takes goes to the default or is rejected.
func TestRoute(t *testing.T) {
	when := func(src string) *expr.Program { return compile(t, src, expr.Env{Want: stream.Bool}) }
	r := Route{Cases: []Case{{"big", when("this.n > 10")}, {"odd", when("this.n % 2 == 1")}, {"big", when("this.n == 4")}}}
	values := []string{`{"n":11}`, `{"n":3}`, `{"n":2}`, `{"x":1}`, `{"n":4}`, `{"n":5}`}
	b := input(values...)
	defer b.Release()
	op := opened(t, r.New(), nil)
	for range 2 { // nothing is left over from the batch before
		out := routed(t, op, b)
		equal(t, "routed", out.sides, `big {"n":11}`, `big {"n":4}`, `odd {"n":3}`, `odd {"n":5}`)
		equal(t, "rejected", out.rejected, "2 route.no_case", "3 "+expr.CodeNull)
	}
	r.Default = "rest"
	out := routed(t, opened(t, r.New(), nil), b)
	equal(t, "with a default", out.sides, `big {"n":11}`, `big {"n":4}`, `odd {"n":3}`, `odd {"n":5}`, `rest {"n":2}`)
	equal(t, "rejected", out.rejected, "3 "+expr.CodeNull)
	if got := r.Outputs(); len(got) != 3 || got[0] != "big" || got[2] != "rest" {
		t.Errorf("outputs %v", got)
	}
}

// TestRouteWhole: a batch that goes one way is passed on itself.
func TestRouteWhole(t *testing.T) {
	r := Route{Cases: []Case{{"yes", compile(t, "this.n > 0", expr.Env{Want: stream.Bool})}}}
	op := opened(t, r.New(), nil)
	for _, c := range []struct {
		in   []string
		same bool
		want []string
	}{{[]string{`{"n":1}`, `{"n":2}`}, true, []string{`yes {"n":1}`, `yes {"n":2}`}}, {[]string{`{"n":1}`, `{"n":0}`}, false, []string{`yes {"n":1}`}},
		{[]string{`{"n":0}`, `{"n":1}`}, false, []string{`yes {"n":1}`}}, {[]string{`{"n":0}`}, false, nil}, {nil, false, nil}} {
		b := input(c.in...)
		out := routed(t, op, b)
		equal(t, "routed", out.sides, c.want...)
		if same := len(out.passed) == 1 && out.passed[0] == b; same != c.same {
			t.Errorf("%v: passed on itself %v", c.in, same)
		}
		b.Release()
	}
}
