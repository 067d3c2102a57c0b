package transform

import (
	"fmt"
	"slices"
	"testing"

	"etl/expr"
	"etl/stream"
)

// emitted is what an operator emits for records, as key and version.
func emitted(t *testing.T, keyer *Keyer, op Operator, values ...string) (out []string) {
	t.Helper()
	b := input(values...)
	defer b.Release()
	if err := keyer.Key(b, func(i int, err error) { t.Fatalf("record %d: %v", i, err) }); err != nil {
		t.Fatal(err)
	}
	o := &fakeOutput{}
	if err := op.Process(t.Context(), b, o); err != nil {
		t.Fatal(err)
	}
	return append(out, o.versions()...)
}

// versions takes what was emitted.
func (o *fakeOutput) versions() (out []string) {
	for _, b := range o.batches {
		for _, r := range b.Records {
			out = append(out, fmt.Sprintf("%s %d", r.Group, r.Version))
		}
	}
	o.take()
	return out
}

func TestVersionCountsRecordsOfAKey(t *testing.T) {
	state := newFakeKeyed()
	keyer := NewKeyer([]*expr.Program{compile(t, "this.k", expr.Env{})})
	op := opened(t, Version{}.New(), state)
	equal(t, "versions", emitted(t, keyer, op, `{"k":1}`, `{"k":2}`, `{"k":1}`), "1 1", "2 1", "1 2")
	at := state.snapshot()
	equal(t, "versions", emitted(t, keyer, op, `{"k":1}`, `{"k":3}`), "1 3", "3 1")
	again := opened(t, Version{}.New(), restored(at))
	equal(t, "versions of a replay", emitted(t, keyer, again, `{"k":1}`, `{"k":3}`), "1 3", "3 1")
}

// The version of an aggregate counts what came, not what was emitted or changed: two
// runs that emit at different barriers, or take the records of a key in another order,
// give the last value of a key the same version.
func TestAggregateVersionDoesNotDependOnTheWay(t *testing.T) {
	records := []string{`{"k":1,"n":1}`, `{"k":1,"n":2}`, `{"k":1,"n":3}`, `{"k":1,"n":3}`}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		for every := 1; every <= len(records); every++ {
			a := Aggregate{Key: []*expr.Program{compile(t, "this.k", expr.Env{})}, Versioned: true,
				Aggregations: []Aggregation{{Name: "most", Op: Max, Of: compile(t, "this.n", expr.Env{})}}}
			state := newFakeKeyed()
			op := opened(t, a.New(), state)
			for i, part := range slices.Collect(slices.Chunk(order, every)) {
				var values []string
				for _, n := range part {
					values = append(values, records[n])
				}
				emitted(t, NewKeyer(a.Key), op, values...)
				o := &fakeOutput{}
				if _, err := op.(BeforeBarrier).BeforeBarrier(t.Context(), stream.CheckpointID(i+1), o); err != nil {
					t.Fatal(err)
				}
				seen := min((i+1)*every, len(records))
				equal(t, fmt.Sprintf("order %v every %d", order, every), o.versions(), fmt.Sprintf("1 %d", seen))
				state.dirty = nil // the barrier seals the epoch
			}
		}
	}
}

func TestAggregateVersionOnChange(t *testing.T) {
	a := Aggregate{Key: []*expr.Program{compile(t, "this.k", expr.Env{})}, Versioned: true, Emit: OnChange,
		Aggregations: []Aggregation{{Name: "most", Op: Max, Of: compile(t, "this.n", expr.Env{})}}}
	op := opened(t, a.New(), newFakeKeyed())
	equal(t, "a record that changes nothing counts, and is not emitted",
		emitted(t, NewKeyer(a.Key), op, `{"k":1,"n":2}`, `{"k":1,"n":1}`, `{"k":1,"n":3}`), "1 1", "1 3")
	if with, without := a.serializer(), (Aggregate{Aggregations: a.Aggregations}).serializer(); with == without {
		t.Errorf("both layouts of the state are called %s", with)
	}
}

// A version goes along with the record through what keeps the record one.
func TestVersionSurvives(t *testing.T) {
	b := input(`{"k":[1,2]}`)
	b.Records[0].Version = 7
	defer b.Release()
	for name, c := range map[string]struct {
		op   Operator
		want string
	}{
		"filter":   {Filter{Where: compile(t, "true", expr.Env{Want: stream.Bool})}.New(), "[ 7]"},
		"map":      {Map{Fields: []Field{{Name: "a", Value: compile(t, "this.k", expr.Env{})}}}.New(), "[ 7]"},
		"flat_map": {FlatMap{Each: compile(t, "this.k", expr.Env{Want: stream.List})}.New(), "[ 0  0]"},
	} {
		o := &fakeOutput{}
		if err := c.op.Process(t.Context(), b, o); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(o.versions()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
