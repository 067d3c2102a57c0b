package sqltxn

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"etl/expr"
	"etl/stream"
)

func textColumn(name string) *Column {
	return &Column{Name: name, Declared: "text", Type: &Type{Declared: "text", form: textForm, OID: 25, Array: 1009, length: -1, precision: -1, name: "text"}}
}

func pairTarget(m Mode) *Target {
	return &Target{Table: &Table{Schema: "s", Name: "t"}, Mode: m, Key: 1, Columns: []*Column{textColumn("k"), textColumn("v")}}
}

// put adds a row (k, v), a delete when v is nil.
func put(t testing.TB, rows *Rows, row *Row, k string, v *string, offset int64) {
	t.Helper()
	row.Reset()
	row.Value(expr.StringValue(k))
	if v == nil {
		row.Delete()
	} else {
		row.Value(expr.StringValue(*v))
	}
	r := stream.Record{Topic: "t", Partition: 1, Offset: offset, Key: []byte(k), Timestamp: 5}
	if v != nil {
		r.Value = []byte(*v)
	}
	if err := rows.Add(row, &r); err != nil {
		t.Fatal(err)
	}
}

// fields reads a tuple of two texts.
func fields(f frame) (k, v string) {
	tu := f.tuple()[2:]
	end := fieldsEnd(tu, 1)
	k = string(tu[4:end])
	if be.Uint32(tu[end:]) != nullField {
		v = string(tu[end+4:])
	}
	return k, v
}

// Rows keep the last row of each key, deletes included, and, read chunk by chunk, give
// what a table would hold: in memory, compacted, and spilled.
func TestRowsReduce(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int64{1, 200 << 10, 1 << 30}).Draw(rt, "limit")
		m := NewMemory(stream.SystemFS{}, limit, dir, "x")
		keyed := rapid.Bool().Draw(rt, "keyed")
		row := NewRow(pairTarget(UpsertDelete))
		rows, want, n, last := NewRows(m, keyed, true), map[string]string{}, 0, NewRows(m, keyed, true)
		keys := rapid.IntRange(1, 3000).Draw(rt, "keys")
		pad := rapid.SampledFrom([]int{0, 100, 4000}).Draw(rt, "pad")
		for i := range rapid.IntRange(0, 3000).Draw(rt, "rows") {
			k := fmt.Sprint((i * 7919) % keys)
			v := fmt.Sprintf("%d %*d", i, pad, i)
			to := rows
			if i > 2000 {
				to = last // an epoch that was aborted, and the one after it
			}
			n++
			if i%11 == 3 {
				put(t, to, row, k, nil, int64(i))
				delete(want, k)
				continue
			}
			put(t, to, row, k, &v, int64(i))
			want[k] = v
		}
		all := rows.Join(last)
		if !keyed && all.Len() != n {
			rt.Fatalf("%d of %d rows", all.Len(), n)
		}
		got := map[string]string{}
		err := all.each(func(_ int, v *view) error {
			seen := map[string]bool{}
			for i := range v.rows {
				f := v.frame(i)
				k, val := fields(f)
				if keyed && seen[k] {
					rt.Fatalf("key %s twice in a chunk", k)
				}
				seen[k] = true
				r := f.toRecord(v.topics)
				if string(r.Key) != k || string(r.Value) != val || r.Topic != "t" || r.Partition != 1 || r.Timestamp != 5 {
					rt.Fatalf("record %+v of row %s %s", r, k, val)
				}
				delete(got, k)
				if !f.deletes() {
					got[k] = val
				}
			}
			return nil
		})
		if err != nil || !maps.Equal(got, want) {
			rt.Fatalf("%v: %d keys, want %d", err, len(got), len(want))
		}
		if limit == 1 && all.Len() > 0 && len(all.chunks) > 2 && m.Spilled() == 0 {
			rt.Fatal("nothing was spilled")
		}
		all.Free()
		if m.held != 0 {
			rt.Fatalf("%d bytes are still held", m.held)
		}
	})
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A spill file of a process that died between making and removing it is replaced.
func TestSpillOverLeftover(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.1.spill"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := NewMemory(stream.SystemFS{}, 1, dir, "x")
	rows, row := NewRows(m, false, false), NewRow(pairTarget(Append))
	v := string(make([]byte, 1000))
	v = fmt.Sprintf("%1000s", v[:0])
	for i := range 300 {
		put(t, rows, row, "k", &v, int64(i))
	}
	if m.Spilled() == 0 || rows.Len() != 300 {
		t.Error(m.Spilled(), rows.Len())
	}
	rows.Free()
}

func TestSpillWithoutRoom(t *testing.T) {
	m := NewMemory(stream.SystemFS{}, 1, filepath.Join("/proc/none"), "x")
	rows, row := NewRows(m, false, false), NewRow(pairTarget(Append))
	v := fmt.Sprintf("%70000s", "")
	put(t, rows, row, "k", &v, 0)
	row.Reset()
	row.Value(expr.StringValue("k"))
	row.Value(expr.StringValue(v))
	if err := rows.Add(row, &stream.Record{}); stream.CodeOf(err) != "postgres.spill" || stream.ClassOf(err) != stream.Environment {
		t.Error(err)
	}
}

func TestRowErrors(t *testing.T) {
	g := pairTarget(Upsert)
	g.Columns[1].NotNull = true
	row := NewRow(g)
	rows := NewRows(NewMemory(stream.SystemFS{}, 1<<20, t.TempDir(), "x"), true, false)
	text := expr.StringValue("canary")
	for name, f := range map[string]func(){
		"null key":        func() { row.Value(expr.NullValue()); row.Value(text) },
		"null value":      func() { row.Value(text); row.Value(expr.NullValue()) },
		"too few":         func() { row.Value(text) },
		"too many":        func() { row.Value(text); row.Value(text); row.Value(text) },
		"tombstone":       func() { row.Value(text); row.Delete() },
		"wrong kind":      func() { row.Value(text); row.Value(expr.IntValue(1)) },
		"list":            func() { row.Value(text); row.List(func(add func(expr.Value) error) error { return add(text) }) },
		"NUL":             func() { row.Value(text); row.Value(expr.StringValue("a\x00")) },
		"bad UTF-8":       func() { row.Value(text); row.Value(expr.StringValue("a\xff")) },
		"bad, then right": func() { row.Value(expr.IntValue(1)); row.Value(text) },
	} {
		row.Reset()
		f()
		err := rows.Add(row, &stream.Record{})
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if s := err.Error(); slices.Contains([]string{""}, s) || len(s) > 300 {
			t.Errorf("%s: %s", name, s)
		}
	}
	if rows.Len() != 0 {
		t.Errorf("%d rows", rows.Len())
	}
}

func TestRejectsRoundTrip(t *testing.T) {
	in := []Rejected{
		{Code: "postgres.row", Message: "m", Record: stream.Record{Topic: "t", Partition: 3, Offset: 9, Timestamp: 7, Key: []byte{}, Value: []byte("\x00\xff"),
			Headers: []stream.Header{{Key: "a"}, {Key: "a", Value: []byte{}}}, Pos: -1}},
		{Record: stream.Record{Timestamp: -1, Pos: -1}},
		{Record: stream.Record{Timestamp: -1, Pos: -1, Made: true}},
	}
	b, err := EncodeRejects(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := DecodeRejects(b)
	if err != nil || fmt.Sprintf("%#v", in) != fmt.Sprintf("%#v", out) {
		t.Errorf("%v\n%#v\n%#v", err, in, out)
	}
	for _, bad := range []string{"", "{", `{"version":2}`, "[]"} {
		if _, err := DecodeRejects([]byte(bad)); stream.ClassOf(err) != stream.RestoreRefused {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestKeptRecords: a dead letter of a row needs the record as it was read, and has to know
// when there is no such record.
func TestKeptRecords(t *testing.T) {
	read := &stream.Record{Topic: "t", Partition: 1, Offset: 2, Timestamp: 3, Key: []byte("k"), Value: []byte("read")}
	changed, made := *read, read.Derived()
	changed.Value, changed.Orig = []byte("changed"), read
	made.Value = []byte("made")
	for want, r := range map[string]*stream.Record{"read": &changed, "made": &made} {
		f := frame(appendFrame(nil, NewRow(pairTarget(Append)), 0, r, true))
		got := f.toRecord([]string{"t"})
		if string(got.Value) != want || got.Made != r.Made || got.Offset != 2 || got.Timestamp != 3 || f.deletes() {
			t.Errorf("%q is kept as %+v", r.Value, got)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(appendRecord(nil, &stream.Record{Key: []byte("k"), Headers: []stream.Header{{Key: "h"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r stream.Record
		if parseRecord(b, &r) == nil {
			var again stream.Record
			if err := parseRecord(appendRecord(nil, &r), &again); err != nil || fmt.Sprintf("%#v", r) != fmt.Sprintf("%#v", again) {
				t.Errorf("%#v %#v %v", r, again, err)
			}
		}
	})
}
