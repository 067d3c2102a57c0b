package torture

import (
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/verify"
)

// standing is where the counts of a key stand.
type standing struct {
	count, sum int64
	home       int32             // the partition its rows are in
	last       map[int32]int64   // the offset of the last record counted, by source partition
	left       map[place][]int64 // the offsets of records that were not counted yet
}

// counts checks running counts and sums that are written with every change. A sum
// rises by the number of the very record that was counted, so that the rows tell
// which records, each once, those of a source partition in their order.
func (a *audit) counts(out map[int32][]*kgo.Record) {
	keys := a.keys()
	var counted verify.RunningCounts
	for k, s := range keys {
		if s.count > 0 {
			counted.Add(k, s.count) // where a restored state stands
		}
	}
	counted.Gaps, counted.Repeats = 0, 0
	for part, recs := range out {
		for _, r := range recs {
			a.countRow(part, r, keys, &counted)
		}
	}
	for k, s := range keys {
		for p, at := range s.left {
			a.Add(Missing, "%s, a record of key %s (offset %d), was not counted", p, k, at)
		}
	}
}

// keys sorts the input by key: what restored state must have, and what has to come.
func (a *audit) keys() map[string]*standing {
	keys := map[string]*standing{}
	of := func(r *origin) *standing {
		s := keys[string(r.Key)]
		if s == nil {
			s = &standing{home: -1, last: map[int32]int64{}, left: map[place][]int64{}}
			keys[string(r.Key)] = s
		}
		return s
	}
	for p, r := range a.prior {
		s := of(r)
		s.count += int64(len(r.at))
		s.sum += int64(len(r.at)) * p.number()
	}
	for p, r := range a.input {
		of(r).left[p] = r.at
	}
	return keys
}

// countOf is one row of the count job.
type countOf struct {
	Key string `json:"key"`
	C   int64  `json:"c"`
	Sum int64  `json:"sum"`
}

func countIn(r *kgo.Record) (v countOf, err error) {
	err = json.Unmarshal(r.Value, &v)
	return v, err
}

func (a *audit) countRow(part int32, r *kgo.Record, keys map[string]*standing, counted *verify.RunningCounts) {
	v, err := countIn(r)
	s := keys[v.Key]
	if err != nil || s == nil || v.Key != string(r.Key) {
		a.Add(Stranger, "row %d/%d: key %s, value %s (%v)", part, r.Offset, r.Key, r.Value, err)
		return
	}
	if s.home >= 0 && s.home != part {
		a.Add(Order, "key %s is in partitions %d and %d", v.Key, s.home, part)
	}
	s.home = part
	switch gap, repeat := counted.Add(v.Key, v.C); {
	case repeat:
		a.Add(Counting, "key %s has count %d at %d/%d after %d", v.Key, v.C, part, r.Offset, counted.Last(v.Key))
		a.Add(Duplicated, "a count of key %s is there twice", v.Key)
	case gap > 0:
		a.Add(Counting, "key %s has count %d at %d/%d: %d are left out", v.Key, v.C, part, r.Offset, gap)
	default:
		a.countedRecord(v.Key, s, v.Sum-s.sum)
	}
	s.sum = v.Sum
}

// countedRecord checks the record by which a sum has risen.
func (a *audit) countedRecord(key string, s *standing, rise int64) {
	p := placeOf(rise)
	at := s.left[p]
	switch {
	case len(at) == 0:
		a.Add(Counting, "the sum of key %s rose by %d: no record of it that was not counted before", key, rise)
		return
	case at[0] < s.last[p.part]:
		a.Add(Order, "%s of key %s was counted after a later one", p, key)
	default:
		s.last[p.part] = at[0]
	}
	if s.left[p] = at[1:]; len(at) == 1 {
		delete(s.left, p)
	}
}
