package verify

import (
	"testing"

	"pgregory.net/rapid"
)

// What merging finds is right: a chain only where there is one, a fault only where
// there is none. And it finds most.
func TestMergingAgainstAllPlaces(t *testing.T) {
	chains, possible := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := historyOf(t, "on_checkpoint")
		k := h.t.keyed[0]
		texts := map[uint64][]byte{}
		rows := job(t, h, texts)
		for i := range rows {
			rows[i].value = k.values.add(texts[rows[i].hash])
		}
		rows = disturb(t, rows)
		h.give(rows)
		want := explained(h, rows)
		m := newMerger(h, k, rows)
		if m == nil {
			t.Fatal("the results cannot be read")
		}
		_, got := m.chain()
		c := &keyedCheck{t: h.t, k: k, a: h.a, r: &Result{limit: 9}, o: &Options{}}
		c.rowByRow(m)
		if got && !want || want && c.r.Counts != (Counts{}) {
			t.Fatalf("chain %v, row by row %+v; explained: %v", got, c.r.Counts, want)
		}
		if want {
			possible++
		}
		if got {
			chains++
		}
	})
	if chains*10 < possible*8 {
		t.Errorf("merging explained %d of %d histories", chains, possible)
	}
	t.Logf("merging explained %d of %d histories", chains, possible)
}
