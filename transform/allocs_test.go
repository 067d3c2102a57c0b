package transform

import (
	"context"
	"encoding/json"
	"testing"

	"etl/expr"
	"etl/stream"
)

// TestNoAllocationsPerRecord: on plain paths, filter, map, and a count behind its rekey
// allocate nothing for a record, so they build no map[string]any either. What a batch
// of 512 may cost as a whole is far below one allocation per record. An operator that
// does unmarshal shows that it would be seen.
func TestNoAllocationsPerRecord(t *testing.T) {
	const perBatch = 32 // memory that the pools have lost to a collection
	allocs, emitted := batchAllocs(t, Filter{Where: compile(t, `this.behavior == "buy"`, expr.Env{})}.New())
	if allocs > perBatch || emitted != batchSize/4 {
		t.Errorf("filter: %v allocations per batch, %d records pass", allocs, emitted)
	}
	allocs, emitted = batchAllocs(t, Map{fields(t, expr.Env{}, "user", "this.user.id", "country", "this.user.country", "price", "this.item.price")}.New())
	if allocs > perBatch || emitted != batchSize {
		t.Errorf("map: %v allocations per batch, %d records", allocs, emitted)
	}
	for _, when := range []When{OnCheckpoint, OnChange} {
		a := Aggregate{Emit: when, Key: []*expr.Program{compile(t, "this.user.id", expr.Env{})}, Aggregations: []Aggregation{{Name: "n", Op: Count}}}
		allocs, emitted = batchAllocs(t, rekey{keyer: NewKeyer(a.Key), t: t}, a.New())
		if allocs > perBatch || (emitted == batchSize) != (when == OnChange) {
			t.Errorf("count, emit %d: %v allocations per batch, %d records", when, allocs, emitted)
		}
	}
	allocs, _ = batchAllocs(t, MapFunc(nil, func(dst []byte, r *stream.Record) ([]byte, error) {
		var v map[string]any
		err := json.Unmarshal(r.Value, &v)
		return append(dst, r.Value...), err
	}))
	if allocs < batchSize {
		t.Errorf("an operator that unmarshals every record makes %v allocations per batch", allocs)
	}
}

// batchAllocs returns the allocations of a batch of 512 records that passes ops, when
// all memory has the size it needs, and the number of records that come out.
func batchAllocs(t *testing.T, ops ...Operator) (allocs float64, emitted int) {
	t.Helper()
	recs, k, out := benchRecords(), &slots{}, &chained{discard: discard{t}}
	for _, op := range ops {
		opened(t, op, k)
	}
	once := func() {
		batch := stream.NewBatch(nil)
		batch.Records = append(batch.Records, recs...)
		for _, op := range ops {
			out.last = nil
			if err := op.Process(context.Background(), batch, out); err != nil {
				t.Fatal(err)
			}
			batch.Release()
			batch = out.last
		}
		emitted = 0
		if batch != nil {
			emitted = len(batch.Records)
			batch.Release()
		}
	}
	return testing.AllocsPerRun(20, once), emitted
}
