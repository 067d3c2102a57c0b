package verify

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/expr/jsondoc"
)

// nest prepares the check of an aggregate behind another one. The inputs of the
// second depend on the order in which the first worked, so its results cannot be
// recomputed; but a plain count that is written with every change has to run.
func (k *keyedRows) nest() {
	if k.agg.behind == "" || !k.agg.onChange || !k.feed.ordered || !k.feed.one || !k.keyIsKey() {
		return
	}
	if name := k.countField(); name != "" {
		k.running, k.counted = &RunningCounts{}, name
	}
}

// run takes the next row of a key.
func (k *keyedRows) run(t *target, ident string, r *kgo.Record) {
	f := Finding{Topic: t.topic, Partition: r.Partition, Offset: r.Offset, Key: ident}
	n, ok := t.count(r, k.counted)
	if !ok {
		f.Kind, f.Why = Altered, "the row has no number "+k.counted
		t.result.found(&t.res, 1, f)
		return
	}
	gap, repeat := k.running.Add(ident, n)
	if repeat {
		f.Kind, f.Why = Duplicated, "the count does not rise"
		t.result.found(&t.res, 1, f)
	}
	f.Kind, f.Why = Missing, "counts before this row are left out"
	t.result.found(&t.res, gap, f)
}

func (t *target) count(r *kgo.Record, field string) (int64, bool) {
	if r.Value == nil || t.doc.Parse(r.Value, jsondoc.Lenient) != nil {
		return 0, false
	}
	n, ok := t.doc.Field(0, field)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(string(t.doc.Raw(n)), 10, 64)
	return v, err == nil
}

// checkNested says what was checked of an aggregate behind another one.
func (t *target) checkNested(k *keyedRows, r *Result) {
	if k.running != nil {
		r.checked("%s: %s: the counts %s of %s keys run without a gap or a repeat", t.topic, k.feed, k.counted, thousands(int64(k.running.Keys())))
	}
	r.notChecked("%s: %s: the values: %s takes from the aggregate %s, whose updates depend on the order in which it saw its records", t.topic, k.feed, k.agg.name, k.agg.behind)
}
