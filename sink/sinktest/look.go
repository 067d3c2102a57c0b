package sinktest

import (
	"context"
	"fmt"
	"slices"
)

// look reads what readers see of the job's rows and checks what holds at any time: no
// row twice, none that is bad, none of an unpublished checkpoint, and the order.
func (j *job) look() []Row {
	rows := j.read()
	j.r.must(j.check(rows))
	return rows
}

// read returns the job's rows among all that readers see.
func (j *job) read() []Row {
	var rows []Row
	j.r.must(j.r.bounded(context.Background(), "read", func(ctx context.Context) (err error) {
		rows, err = j.r.h.Read(ctx)
		return err
	}))
	own := rows[:0]
	for _, row := range rows {
		if row.N/jobRows == j.base/jobRows {
			row.N -= j.base
			own = append(own, row)
		}
	}
	return own
}

// once says that a row is never seen twice: without a marker, and without keys, a
// repetition cannot be told.
func (r *rig) once() bool { return r.f.Transactional || r.f.Marker }

// seen returns what a reader of rows concludes: each row that counts, a repetition once.
func (j *job) seen(rows []Row) (map[int]bool, error) {
	seen, keys := map[int]bool{}, map[string]bool{}
	for _, row := range rows {
		switch {
		case row.Key != j.key(row.N):
			return nil, fmt.Errorf("row %d has the key %q instead of %q", row.N, row.Key, j.key(row.N))
		case j.flaw(row.N) != sound:
			return nil, fmt.Errorf("row %d is visible, which cannot be written", row.N)
		case j.r.f.Upsert && keys[row.Key]:
			return nil, fmt.Errorf("key %s has two rows", row.Key)
		case seen[row.N] && j.r.once():
			return nil, fmt.Errorf("row %d is visible twice", row.N)
		}
		seen[row.N], keys[row.Key] = true, true
	}
	return seen, nil
}

func (j *job) check(rows []Row) error {
	seen, err := j.seen(rows)
	if err != nil {
		return err
	}
	limit := j.limit
	if !j.r.f.Transactional {
		limit = j.written
	}
	for n := range seen {
		if n >= limit {
			return fmt.Errorf("row %d is visible; no checkpoint is published that holds it (those published hold %d rows)", n, limit)
		}
	}
	if j.r.f.Ordered && !j.r.f.Upsert {
		return j.ordered(rows)
	}
	return nil
}

// ordered checks that the rows of each key ascend within each partition. A repetition
// of something older begins again, where repetitions are allowed.
func (j *job) ordered(rows []Row) error {
	type place struct {
		key       string
		partition int
	}
	last := map[place]int{}
	for _, row := range rows {
		p := place{row.Key, row.Partition}
		if before, ok := last[p]; ok && row.N < before && j.r.once() {
			return fmt.Errorf("key %s: row %d comes after row %d", row.Key, row.N, before)
		}
		last[p] = row.N
	}
	return nil
}

// want waits until readers see exactly the rows below n: each of them, or the last one
// of each key. Without transactions they may see what was written after those, too.
func (j *job) want(n int) {
	if !j.r.f.Transactional && n < j.written {
		j.has(n)
		return
	}
	j.r.eventually(func() string {
		seen, err := j.seen(j.look())
		j.r.must(err)
		return j.difference(seen, n)
	})
}

// stays checks that readers see exactly the rows below n, now.
func (j *job) stays(n int) {
	seen, err := j.seen(j.look())
	j.r.must(err)
	if d := j.difference(seen, n); d != "" {
		j.r.failf("%s", d)
	}
}

// difference says how what is seen differs from the rows below n.
func (j *job) difference(seen map[int]bool, n int) string {
	want := map[int]bool{}
	for i := range n {
		if j.flaw(i) != sound {
			continue
		}
		if j.r.f.Upsert {
			for older := i - keysOfJob; older >= 0; older -= keysOfJob {
				delete(want, older)
			}
		}
		want[i] = true
	}
	var missing, extra []int
	for i := range want {
		if !seen[i] {
			missing = append(missing, i)
		}
	}
	for i := range seen {
		if !want[i] {
			extra = append(extra, i)
		}
	}
	if len(missing)+len(extra) == 0 {
		return ""
	}
	slices.Sort(missing)
	slices.Sort(extra)
	return fmt.Sprintf("of the rows below %d, %d are not visible: %s; visible, and should not be: %s", n, len(missing), some(missing), some(extra))
}

func some(ns []int) string {
	if len(ns) > 12 {
		return fmt.Sprintf("%v and %d more", ns[:12], len(ns)-12)
	}
	return fmt.Sprint(ns)
}

// wantRejects checks that published checkpoints have rejected each bad row below n
// exactly once. An upsert may never have tried one that a later row of its key replaces.
func (j *job) wantRejects(n int) {
	got := slices.Clone(j.rejected)
	slices.Sort(got)
	var want []int
	for i := range n {
		replaced := j.r.f.Upsert && j.flaw(i) == badInFinish && i+keysOfJob < n
		if j.flaw(i) != sound && (!replaced || slices.Contains(got, i)) {
			want = append(want, i)
		}
	}
	if !slices.Equal(got, want) {
		j.r.failf("rejected were the rows %s instead of %s", some(got), some(want))
	}
}

// has checks that readers see at least the rows below n, or newer ones of the keys.
func (j *job) has(n int) {
	j.r.eventually(func() string {
		seen, err := j.seen(j.look())
		j.r.must(err)
		for i := range n {
			if j.flaw(i) == sound && !j.covered(seen, i) {
				return fmt.Sprintf("row %d is not visible", i)
			}
		}
		return ""
	})
}

// covered reports whether row i is seen, or was overwritten by a later one.
func (j *job) covered(seen map[int]bool, i int) bool {
	if !j.r.f.Upsert {
		return seen[i]
	}
	for ; i < j.written; i += keysOfJob {
		if seen[i] {
			return true
		}
	}
	return false
}

// seesNothingNew checks that a transactional sink shows no more than the rows below n.
func (j *job) seesNothingNew(n int) {
	if j.r.f.Transactional {
		j.stays(n)
	}
}
