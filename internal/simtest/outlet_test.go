package simtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kind is what must be true of the rows of a sink.
type kind int

const (
	inOrder  kind = iota // the very rows of each partition, in order
	running              // for each key 1, 2, 3...
	rising               // for each key rising numbers, up to the right one
	eachOnce             // the very rows of each partition, in any order
)

// outlet is one sink of the pipeline: its topic, what must come out there, and a
// reader that follows it.
type outlet struct {
	*watcher
	topic string
	kind  kind
	want  func() map[int32][]*kgo.Record
}

// outletsOf are the sinks of the plan. The second one takes the same as the first,
// or, where records are evaluated, those that could not be.
func (s *sim) outletsOf() []*outlet {
	main := &outlet{topic: "out", want: s.expectedValues}
	switch {
	case s.plan.shape.keyed() && s.plan.atCheckpoint:
		main.kind = rising
	case s.plan.shape.keyed():
		main.kind = running
	}
	if !s.plan.second {
		return []*outlet{main}
	}
	other := &outlet{topic: "copy", kind: main.kind, want: main.want}
	if s.plan.shape.fans() {
		other.kind, other.want = inOrder, s.expectedLetters
		if s.plan.refuses() {
			other.kind = eachOnce // those of two components
		}
	}
	return []*outlet{main, other}
}

// isOut reports whether a reader has seen everything that must come out.
func (o *outlet) isOut() bool {
	n := 0
	for _, recs := range o.want() {
		n += len(recs)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kind != rising {
		return len(o.all) >= n
	}
	most := map[string]int{}
	for _, row := range o.all {
		count, _ := strconv.Atoi(string(row.rec.Value))
		most[string(row.rec.Key)] = max(most[string(row.rec.Key)], count)
	}
	for _, count := range most {
		n -= count
	}
	return n <= 0
}

// expectedValues is what must come out of each input partition, before counting.
func (s *sim) expectedValues() map[int32][]*kgo.Record {
	in := s.in.expected()
	if !s.plan.shape.fans() {
		return in
	}
	out := map[int32][]*kgo.Record{}
	for p, recs := range in {
		for _, r := range recs {
			out[p] = append(out[p], s.fan(r)...)
		}
	}
	return out
}

// expectedLetters are those of the records that filter cannot evaluate, and of those
// that give a row which the sink refuses.
func (s *sim) expectedLetters() map[int32][]*kgo.Record {
	out := map[int32][]*kgo.Record{}
	for p, recs := range s.in.expected() {
		for _, r := range recs {
			switch {
			case string(r.Value) == notJSON:
				out[p] = append(out[p], letterOf(r, "some", "json.syntax"))
			case s.plan.refuses() && s.refused(r):
				out[p] = append(out[p], letterOf(r, "out", "sim.zero"))
			}
		}
	}
	return out
}

// letterOf is the dead letter of a record, as docs/dead-letters.md says: its own key,
// value and headers, then what happened, and no time.
func letterOf(r *kgo.Record, by, code string) *kgo.Record {
	l := &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(-1), Headers: slices.Clone(r.Headers)}
	for _, h := range [][2]string{{"topic", r.Topic}, {"partition", fmt.Sprint(r.Partition)}, {"offset", fmt.Sprint(r.Offset)}, {"timestamp", fmt.Sprint(r.Timestamp.UnixMilli())},
		{"component", by}, {"code", code}, {"message", anything}} {
		l.Headers = append(l.Headers, kgo.RecordHeader{Key: "etl.dlq." + h[0], Value: []byte(h[1])})
	}
	return l
}

// anything is a header value that is not compared.
const anything = "*"

// refused reports whether one of the rows of r is one that the sink refuses.
func (s *sim) refused(r *kgo.Record) bool {
	return slices.ContainsFunc(s.elements(r), func(e *kgo.Record) bool { return string(e.Value) == "0" })
}

// fan is what comes out of a record: what filter and flat_map make of it, but for what
// the sink refuses.
func (s *sim) fan(r *kgo.Record) (out []*kgo.Record) {
	for _, e := range s.elements(r) {
		if !s.plan.refuses() || string(e.Value) != "0" {
			out = append(out, e)
		}
	}
	return out
}

// elements is what filter and flat_map make of a record.
func (s *sim) elements(r *kgo.Record) (out []*kgo.Record) {
	if string(r.Value) == notJSON {
		return nil
	}
	text, ok := strings.CutPrefix(string(r.Value), `{"n":`)
	number, list, ok2 := strings.Cut(text, ",")
	n, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil {
		s.fail("input value %q", r.Value)
		return nil
	}
	if n%3 == 0 {
		return nil
	}
	list = strings.TrimSuffix(strings.TrimPrefix(list, `"items":[`), "]}")
	if list == "" {
		return nil
	}
	for _, item := range strings.Split(list, ",") {
		c := *r
		c.Value = []byte(item)
		out = append(out, &c)
	}
	return out
}
