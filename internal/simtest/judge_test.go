package simtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// judge looks at what the job has left, with nothing of the engine.
func (s *sim) judge() {
	defer func() {
		for _, o := range s.outlets {
			o.close()
		}
	}()
	if s.t.Failed() {
		return
	}
	if s.lossTold != nil {
		pause(transactionTimeout + time.Minute) // what is open is given up
	}
	pause(3 * time.Second) // for the watchers to see the last rows
	finals := map[string]map[int32][]seen{}
	for _, o := range s.outlets {
		finals[o.topic] = s.readAll(o.topic)
		s.checkWatcher(o, finals[o.topic])
	}
	if s.lossTold != nil {
		s.checkLoss(finals)
		return
	}
	for _, o := range s.outlets {
		s.checkRows(o, finals[o.topic])
		s.checkEnds(o.topic)
	}
	s.checkTransactions()
	s.checkLog()
}

func (s *sim) checkRows(o *outlet, final map[int32][]seen) {
	switch want := o.want(); o.kind {
	case inOrder:
		for p := range int32(outPartitions) {
			s.checkPartition(o.topic, p, want[p], final[p])
		}
	case eachOnce:
		for p := range int32(outPartitions) {
			if left := s.checkOnce(o, want[p], final[p]); len(left) > 0 {
				s.fail("%s/%d lacks %d of %d rows, the first is %s=%s %s", o.topic, p, len(left), len(want[p]), left[0].Key, left[0].Value, left[0].Headers)
			}
			s.cov.addN("check/dead letters", int64(len(want[p])))
		}
	default:
		s.checkCounts(o, want, final)
	}
}

// checkPartition compares one partition of the output with that of the input:
// nothing missing, nothing twice, nothing altered, in order.
func (s *sim) checkPartition(topic string, p int32, want []*kgo.Record, got []seen) {
	for i := range min(len(want), len(got)) {
		if !sameRecord(want[i], got[i].rec) {
			s.fail("%s/%d: row %d is %s, want %s=%s (%d rows, want %d)", topic, p, i, got[i], want[i].Key, want[i].Value, len(got), len(want))
			return
		}
	}
	if len(want) != len(got) {
		s.fail("%s/%d has %d rows, want %d", topic, p, len(got), len(want))
	}
}

// checkOnce compares one partition of the output with what must be there, in any order:
// nothing twice, nothing altered. It returns what is missing.
func (s *sim) checkOnce(o *outlet, want []*kgo.Record, got []seen) (left []*kgo.Record) {
	left = slices.Clone(want)
	for _, row := range got {
		i := slices.IndexFunc(left, func(r *kgo.Record) bool { return sameRecord(r, row.rec) })
		if i < 0 {
			s.fail("%s: %s is there twice, or should not be: %s", o.topic, row, row.rec.Headers)
			return nil
		}
		left = slices.Delete(left, i, i+1)
	}
	return left
}

// checkCounts recounts. Where every change is emitted, each key has the numbers 1, 2,
// 3... up to how often it occurs, in this order; where changes are emitted at
// checkpoints, numbers that rise to it. All of a key are in one partition.
func (s *sim) checkCounts(o *outlet, in map[int32][]*kgo.Record, final map[int32][]seen) {
	want, got, home := map[string]int{}, map[string]int{}, map[string]int32{}
	for _, recs := range in {
		for _, r := range recs {
			want[string(r.Key)]++
		}
	}
	for p, rows := range final {
		for _, row := range rows {
			key := string(row.rec.Key)
			n, err := strconv.Atoi(string(row.rec.Value))
			if err != nil || n <= got[key] || o.kind == running && n != got[key]+1 {
				s.fail("%s: key %s: row %s follows count %d", o.topic, key, row, got[key])
				return
			}
			got[key] = n
			if at, ok := home[key]; ok && at != p {
				s.fail("%s: key %s is in partitions %d and %d", o.topic, key, at, p)
			}
			home[key] = p
		}
	}
	for key, n := range want {
		if got[key] != n {
			s.fail("%s: key %s was counted %d times, it occurs %d times", o.topic, key, got[key], n)
			return
		}
	}
	if len(got) != len(want) {
		s.fail("%s: %d keys were counted, %d occur", o.topic, len(got), len(want))
	}
}

// checkWatcher: what a reader saw at any time is in the end at its place, unaltered.
func (s *sim) checkWatcher(o *outlet, final map[int32][]seen) {
	o.close()
	for _, what := range o.bad {
		s.fail("a reader of %s saw two things in one place: %s", o.topic, what)
	}
	left := len(o.all)
	for p, rows := range final {
		for _, row := range rows {
			saw, ok := o.all[spot{p, row.offset}]
			switch {
			case !ok:
				s.fail("a reader that follows %s did not see %s", o.topic, row)
				return
			case !saw.same(row):
				s.fail("a reader of %s saw %s, where %s is in the end", o.topic, saw, row)
				return
			}
			left--
		}
	}
	if left > 0 {
		s.fail("a reader of %s saw %d rows that are not there in the end", o.topic, left)
	}
}

// checkEnds: nothing holds readers back.
func (s *sim) checkEnds(topic string) {
	stable, ends := s.stableEnds(topic), s.logEnds(topic)
	for p, end := range ends {
		if stable[p] != end {
			s.fail("the last stable offset of %s/%d is %d, its end %d", topic, p, stable[p], end)
		}
	}
}

// checkTransactions: none of the job's is left open.
func (s *sim) checkTransactions() {
	cl := s.client()
	defer cl.Close()
	ts, err := kadm.NewClient(cl).ListTransactions(context.Background(), nil, nil)
	if err != nil {
		s.fail("list transactions: %v", err)
	}
	for id, t := range ts {
		if t.State != "Empty" && strings.HasPrefix(id, "etl.") {
			s.fail("transaction %s is left in state %s", id, t.State)
		}
	}
}
