package sqltxn

import (
	"fmt"
	"math"
	"testing"

	"etl/expr"
	"etl/stream"
)

// Once an epoch was written, the next one of its size costs some allocations for each
// chunk and none for each row.
func TestRowsAllocateNothing(t *testing.T) {
	for _, mode := range []Mode{Append, Upsert} {
		g := pairTarget(mode)
		g.Columns = append(g.Columns, &Column{Name: "n", Declared: "bigint", Type: &Type{Declared: "bigint", form: int8Form, OID: 20}})
		m, row, keys := NewMemory(nil, math.MaxInt64, "", ""), NewRow(g), make([][]byte, 20_000)
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "key %d", i*7919)
		}
		epoch := func() {
			rows := NewRows(m, mode != Append, false)
			for i, key := range keys {
				row.Reset()
				row.Value(expr.TextValue(key))
				row.Value(expr.TextValue(key))
				row.Value(expr.IntValue(int64(i)))
				if err := rows.Add(row, &stream.Record{Key: key, Topic: "in"}); err != nil {
					t.Fatal(err)
				}
			}
			rows.Free()
		}
		epoch()
		if n := testing.AllocsPerRun(3, epoch); n > 100 {
			t.Errorf("%s: %.0f allocations for %d rows", mode, n, len(keys))
		}
	}
}
