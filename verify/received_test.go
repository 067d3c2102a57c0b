package verify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"etl/stream"
)

// endpoint is what an endpoint wrote down, and the records that the job read.
type endpoint struct {
	t        *testing.T
	dir      string
	spec     Spec
	in       int
	received []string
	aside    []string
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{t: t, dir: t.TempDir(), in: 30}
	e.spec = Spec{Name: "hooks", Sources: []Source{{Name: "in", Topics: []string{inTopic}}},
		Sinks: []Sink{{Name: "hook", Inputs: []string{"in"}, Map: []Field{{"id", "this.id"}, {"total", "this.total * 2"}}, OnError: "skip", Endpoint: &EndpointSink{
			Received: []string{filepath.Join(e.dir, "*.jsonl")}, PutAside: []string{filepath.Join(e.dir, "aside", "*")}}}}}
	for i := range e.in {
		switch {
		case i == 11: // refused, in two deliveries
			for range 2 {
				e.aside = append(e.aside, fmt.Sprintf(`{"idempotency_key":"k/12","status":422,"row":{"id":%d,"total":%d.50}}`, i, 2*i))
			}
		default: // as another program would write it
			e.received = append(e.received, fmt.Sprintf(`{ "total" : %d.5, "id" : %d }`, 2*i, i))
		}
	}
	return e
}

func (e *endpoint) judge() *Result {
	e.t.Helper()
	half := len(e.received) / 2
	for name, lines := range map[string][]string{"a.jsonl": e.received[:half], "b.jsonl": e.received[half:], "aside/1-0-1.jsonl": e.aside} {
		must(e.t, os.MkdirAll(filepath.Join(e.dir, "aside"), 0o755))
		must(e.t, os.WriteFile(filepath.Join(e.dir, name), []byte(strings.Join(append(slices.Clone(lines), ""), "\n")), 0o600))
	}
	o := Options{Finished: true}
	o.withDefaults()
	c, err := newRecounting(&e.spec, &o)
	must(e.t, err)
	must(e.t, c.readTarget(e.t.Context(), c.targets[0]))
	for i := range e.in {
		c.r.RecordsIn++
		c.enter(c.order[0], &stream.Record{Topic: inTopic, Partition: int32(i % 2), Offset: int64(i / 2), Value: fmt.Appendf(nil, `{"id":%d,"total":%d.25}`, i, i), Pos: -1})
	}
	return c.conclude()
}

// What was received is compared as documents; what was refused lies elsewhere.
func TestReceived(t *testing.T) {
	e := newEndpoint(t)
	r := e.judge()
	if !r.OK || (r.Counts != Counts{}) || r.RecordsOut != 30 || len(r.LeftOut) > 0 {
		t.Error(describe(r))
	}
	for what, f := range map[string]struct {
		do   func(e *endpoint)
		ok   bool
		want Counts
		at   int64 // row of the finding
	}{
		"removed":    {func(e *endpoint) { e.received = slices.Delete(e.received, 4, 5) }, false, Counts{Missing: 1}, 0},
		"the newest": {func(e *endpoint) { e.received = e.received[:28] }, false, Counts{Behind: 1}, 0},
		"doubled":    {func(e *endpoint) { e.received = slices.Insert(e.received, 5, e.received[4]) }, true, Counts{Duplicated: 1}, 6},
		"altered":    {func(e *endpoint) { e.received[4] = strings.Replace(e.received[4], ".5", ".6", 1) }, false, Counts{Altered: 1}, 5},
		"invented":   {func(e *endpoint) { e.received = slices.Insert(e.received, 4, "null") }, false, Counts{Altered: 1}, 5},
		"no JSON":    {func(e *endpoint) { e.received[4] = "x" }, false, Counts{Altered: 1}, 5},
		"not aside":  {func(e *endpoint) { e.aside = nil }, false, Counts{Missing: 1}, 0},
		"a blank":    {func(e *endpoint) { e.received = slices.Insert(e.received, 4, "") }, true, Counts{}, 0},
		"cut":        {func(e *endpoint) { e.received[28] = `{"id":` }, false, Counts{Altered: 1}, 15},
	} {
		e := newEndpoint(t)
		f.do(e)
		r := e.judge()
		if r.OK != f.ok || r.Counts != f.want {
			t.Errorf("%s: %s", what, describe(r))
		}
		if f.at > 0 && (len(r.Examples) == 0 || r.Examples[0].Row != f.at || !strings.HasSuffix(r.Examples[0].File, ".jsonl")) {
			t.Errorf("%s: %+v", what, r.Examples)
		}
	}
}

// A line that is being written is no row yet.
func TestLineBeingWritten(t *testing.T) {
	e := newEndpoint(t)
	e.judge()
	name := filepath.Join(e.dir, "c.jsonl")
	for text, ok := range map[string]bool{`{"id":7,"to`: true, `{"id":7}`: false} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
		if r := e.judge(); r.OK != ok || notChecked(r, "is being written") != ok {
			t.Errorf("%s: %s", text, describe(r))
		}
	}
}

// Without files the sink is left out; a pipeline that has no other cannot be recounted.
func TestEndpointThatIsNotKnown(t *testing.T) {
	e := newEndpoint(t)
	e.spec.Sinks[0].Endpoint.Received = nil
	if _, err := Verify(t.Context(), e.spec, Options{}); stream.ClassOf(err) != stream.BadConfig || stream.CodeOf(err) != "verify.received" || !strings.Contains(fixOf(err), "--received hook=FILE") {
		t.Errorf("%v", err)
	}
	f := filesSpec(t.TempDir(), "json")
	f.Sinks, f.Letters = append(f.Sinks, e.spec.Sinks...), []string{"dead"}
	r := judgeFiles(t, f, Options{}, 0)
	if !r.OK || !slices.Equal(r.LeftOut, []string{"hook", "dead"}) || !notChecked(r, "hook: everything: an endpoint cannot be asked") ||
		!strings.Contains(describe(r), "OK (not checked at all: hook, dead)") {
		t.Error(describe(r))
	}
}

func fixOf(err error) string {
	var e *stream.Error
	errors.As(err, &e)
	return e.Fix
}

// A pattern that names no file is a mistake in the command.
func TestNothingReceived(t *testing.T) {
	e := newEndpoint(t)
	o := Options{}
	o.withDefaults()
	c, err := newRecounting(&e.spec, &o)
	must(t, err)
	if err := c.readTarget(t.Context(), c.targets[0]); stream.CodeOf(err) != "verify.received" {
		t.Error(err)
	}
}

// Running results are put in order by their count.
func TestCountsReceived(t *testing.T) {
	e := newEndpoint(t)
	e.spec.Transforms = []Transform{{Name: "n", Type: "aggregate", Inputs: []string{"in"}, Key: []string{"this.id % 3"}, Emit: "on_change", Aggregates: []Aggregate{{Name: "n", Op: "count"}}}}
	e.spec.Sinks[0].Inputs, e.spec.Sinks[0].Map = []string{"n"}, nil
	e.received, e.aside = nil, nil
	for i := range e.in {
		e.received = append(e.received, fmt.Sprintf(`{"key":%d,"n":%d}`, i%3, i/3+1))
	}
	slices.Reverse(e.received)
	if r := e.judge(); !r.OK || (r.Counts != Counts{}) {
		t.Error(describe(r))
	}
	for range 6 {
		e.received = append(e.received, e.received[:30]...)
	}
	if r := e.judge(); !r.OK || (r.Counts != Counts{Duplicated: 180}) || r.Examples[0].File == "" {
		t.Error(describe(r))
	}
	e.received = slices.Delete(e.received[:30], 14, 15)
	if r := e.judge(); r.OK || (r.Counts != Counts{Missing: 1}) {
		t.Error(describe(r))
	}
	e.received[4] = strings.Replace(e.received[4], `"n":`, `"n":1`, 1)
	if r := e.judge(); r.OK || r.Altered == 0 {
		t.Error(describe(r))
	}
}
