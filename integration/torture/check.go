package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/verify"
)

// audit compares the output of a job with its input, as it was found in the topics
// afterwards. from are the offsets at which the job began; what lies before has
// made its state and no rows.
type audit struct {
	*Verdict
	maker *maker
	topic string
	from  map[int32]int64
	input map[place]*origin // rows are expected for
	prior map[place]*origin // before from
	got   map[place]int     // rows found
	order verify.SourceOrder
}

// origin is a record of the input and the offsets at which it lies. There is more
// than one where a broker died: the harness writes its input without transactions,
// and what counts is what the input holds.
type origin struct {
	*kgo.Record
	at []int64
}

// newAudit takes the input, which is checked too: each record is what the harness
// made.
func newAudit(v *Verdict, m *maker, topic string, in map[int32][]*kgo.Record, from map[int32]int64) *audit {
	a := &audit{Verdict: v, maker: m, topic: topic, from: from, input: map[place]*origin{}, prior: map[place]*origin{}, got: map[place]int{}}
	for part, recs := range in {
		for _, r := range recs {
			p, err := m.placeIn(r)
			if err != nil || p.part != part || !same(m.make(p), r) {
				v.Add(Stranger, "the input at %s/%d is not what was written (%v)", topic, r.Offset, err)
				continue
			}
			set := a.input
			if r.Offset < from[part] {
				set = a.prior
			}
			if set[p] == nil {
				set[p] = &origin{Record: r}
			}
			set[p].at = append(set[p].at, r.Offset)
		}
	}
	return a
}

// same compares all that passes through.
func same(a, b *kgo.Record) bool {
	if !bytes.Equal(a.Key, b.Key) || (a.Key == nil) != (b.Key == nil) || !bytes.Equal(a.Value, b.Value) || (a.Value == nil) != (b.Value == nil) ||
		len(a.Headers) != len(b.Headers) || !a.Timestamp.Equal(b.Timestamp) {
		return false
	}
	for i, h := range a.Headers {
		if g := b.Headers[i]; h.Key != g.Key || !bytes.Equal(h.Value, g.Value) || (h.Value == nil) != (g.Value == nil) {
			return false
		}
	}
	return true
}

// rows checks the topics of the job.
func (a *audit) rows(kind Kind, outs []string, all map[string]map[int32][]*kgo.Record) {
	switch kind {
	case Pass:
		a.passed(all[outs[0]], func(place) bool { return true })
	case Count:
		a.counts(all[outs[0]])
	case Fan:
		a.fanned(all[outs[0]])
		b := &audit{Verdict: a.Verdict, maker: a.maker, topic: a.topic, from: a.from, input: a.input, got: map[place]int{}}
		b.passed(all[outs[1]], kept)
	}
}

// kept is the filter of the fan job.
func kept(p place) bool { return p.seq%3 != 0 }

// passed checks rows that are records of the input, byte for byte, those of one
// partition in their order.
func (a *audit) passed(out map[int32][]*kgo.Record, wanted func(place) bool) {
	for part, recs := range out {
		for _, r := range recs {
			p, err := a.maker.placeIn(r)
			want := a.input[p]
			switch {
			case err != nil:
				a.Add(Altered, "row %d/%d tells no place: %v", part, r.Offset, err)
			case want == nil || !wanted(p):
				a.Add(Stranger, "row %d/%d is %s, which must not come out", part, r.Offset, p)
			case !same(want.Record, r):
				a.Add(Altered, "row %d/%d is not the record %s that went in", part, r.Offset, p)
			}
			n := a.got[p]
			if a.got[p]++; want != nil && n >= len(want.at) {
				a.Add(Duplicated, "%s is there %d times, now at %d/%d", p, n+1, part, r.Offset)
			} else if want != nil && !a.order.Add(part, a.topic, p.part, want.at[n]) {
				a.Add(Order, "%s at %d/%d comes after a later one", p, part, r.Offset)
			}
		}
	}
	a.missing(func(p place) int {
		if wanted(p) {
			return len(a.input[p].at)
		}
		return 0
	})
}

// missing compares what was found with how many rows each record must give.
func (a *audit) missing(want func(place) int) {
	for _, p := range sortedPlaces(a.input) {
		if n := want(p); a.got[p] < n {
			a.Add(Missing, "%s of the input (offset %d) gave %d rows of %d", p, a.input[p].Offset, a.got[p], n)
		}
	}
}

func sortedPlaces(m map[place]*origin) []place {
	out := make([]place, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b place) int { return int(a.number() - b.number()) })
	return out
}

// fanned checks the rows of flat_map: for each record its tags, in order.
func (a *audit) fanned(out map[int32][]*kgo.Record) {
	tags := map[place][]string{}
	for p, r := range a.input {
		if kept(p) {
			var v struct {
				Tags []string `json:"tags"`
			}
			if err := json.Unmarshal(r.Value, &v); err != nil {
				a.Add(Stranger, "%s: %v", p, err)
			}
			tags[p] = v.Tags
		}
	}
	for part, recs := range out {
		for _, r := range recs {
			a.fannedRow(part, r, tags)
		}
	}
	a.missing(func(p place) int { return len(tags[p]) * len(a.input[p].at) })
}

func (a *audit) fannedRow(part int32, r *kgo.Record, tags map[place][]string) {
	var v struct {
		P   int32  `json:"p"`
		S   int64  `json:"s"`
		Tag string `json:"tag"`
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		a.Add(Altered, "row %d/%d: %v", part, r.Offset, err)
		return
	}
	p := place{v.P, v.S}
	n := a.got[p]
	a.got[p]++
	in, want := a.input[p], tags[p]
	if in == nil || !kept(p) || len(want) == 0 {
		a.Add(Stranger, "row %d/%d is of %s, which must not come out", part, r.Offset, p)
		return
	}
	turn, i := n/len(want), n%len(want)
	switch {
	case turn >= len(in.at):
		a.Add(Duplicated, "%s has %d tags, row %d/%d is one more", p, len(want), part, r.Offset)
	case want[i] != v.Tag:
		a.Add(Order, "tag %d of %s is %q at %d/%d, want %q", i, p, v.Tag, part, r.Offset, want[i])
	case !a.order.Add(part, a.topic, p.part, in.at[turn]<<3+int64(i)):
		a.Add(Order, "%s at %d/%d comes after a later one", p, part, r.Offset)
	}
}

// audited reads everything and checks it. from nil is the beginning.
func (j *Job) audited(ctx context.Context, v *Verdict, m *maker, t *Tally, from map[int32]int64) (map[string]map[int32][]*kgo.Record, error) {
	all, err := j.broker.ReadAll(ctx, append([]string{j.In()}, j.Outs()...)...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", strings.Join(j.Outs(), ", "), err)
	}
	a := newAudit(v, m, j.In(), all[j.In()], from)
	a.rows(j.Kind, j.Outs(), all)
	t.Add(recordsIn, int64(len(a.input)))
	for _, topic := range j.Outs() {
		for _, recs := range all[topic] {
			t.Add(rowsOut, int64(len(recs)))
		}
	}
	return all, nil
}
