package file

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"etl/expr"
	"etl/expr/decimal"
	"etl/stream"
)

func num(s string) expr.Value {
	n, ok := decimal.Parse(s)
	if !ok {
		panic(s)
	}
	return expr.NumberValue(n)
}

// What fits a column is kept to the last digit, what does not is refused.
func TestParquetValues(t *testing.T) {
	text, null := expr.StringValue, expr.NullValue()
	for _, c := range []struct {
		typ  string
		in   expr.Value
		want string // "": refused
	}{
		{"int64", num("9223372036854775807"), "9223372036854775807"},
		{"int64", num("9223372036854775808"), ""},
		{"int64", num("9007199254740993"), "9007199254740993"}, // field bug R02
		{"int64", num("1.0"), "1"},
		{"int64", num("1.5"), ""},
		{"int64", text("1"), ""},
		{"int64", null, "<null>"},
		{"double", num("0.1"), "0.1"},
		{"double", num("1e309"), ""},
		{"double", text("NaN"), ""},
		{"boolean", expr.BoolValue(true), "true"},
		{"boolean", num("1"), ""},
		{"string", text("ä\x00"), "ä\x00"},
		{"string", text(""), ""}, // see below: empty is not null
		{"decimal(5,2)", num("123.45"), "12345"},
		{"decimal(5,2)", num("-999.99"), "-99999"},
		{"decimal(5,2)", num("1000.00"), ""},
		{"decimal(5,2)", num("0.001"), ""},
		{"decimal(18,0)", num("999999999999999999"), "999999999999999999"},
		{"json", num("1.50"), "1.50"},
		{"timestamp", num("1700000000123"), "1700000000123000"},
		{"timestamp", text("2026-11-29T12:00:00.000001+01:00"), "1795950000000001"},
		{"timestamp", text("2026-11-29T12:00:00"), ""}, // without its zone it is no instant (field bug R09)
		{"timestamp", text("2026-11-29T12:00:00.0000001Z"), ""},
		{"date", text("1969-12-31"), "-1"},
		{"date", text("2026-02-30"), ""},
	} {
		typ, err := ParseType(c.typ)
		must(t, err)
		cells := newParquetCells([]Column{{"c", typ}})
		err = cells.add(0, c.in)
		if s, isText := c.in.Text(); isText && s == "" && err == nil && !cells.values[0].IsNull() {
			continue
		}
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s takes %s as %s", c.typ, c.in.AppendJSON(nil), cells.values[0])
		case c.want != "" && err != nil:
			t.Errorf("%s refuses %s: %v", c.typ, c.in.AppendJSON(nil), err)
		case c.want != "" && cells.values[0].String() != c.want:
			t.Errorf("%s keeps %s as %s, want %s", c.typ, c.in.AppendJSON(nil), cells.values[0], c.want)
		}
	}
	for _, bad := range []string{"decimal", "decimal(19,2)", "decimal(3,4)", "int32", "string(1,2)", ""} {
		if typ, err := ParseType(bad); err == nil {
			t.Errorf("%q is the type %s", bad, typ)
		}
	}
}

// A whole file: columns keep their order, rows theirs, over many row groups.
func TestParquetFile(t *testing.T) {
	cfg := Config{Format: Parquet, Compression: Zstd, Columns: []Column{{"z", Type{Kind: Int64}}, {"a", Type{Kind: String}},
		{"price", Type{Kind: Decimal, Precision: 9, Scale: 2}}, {"at", Type{Kind: Timestamp}}}}.WithDefaults()
	var out bytes.Buffer
	b, err := newParquetBody(&cfg, &out)
	must(t, err)
	row := Row{cfg: &cfg, cells: cfg.newCells()}
	const rows = 3000
	for i := range rows {
		row.reset()
		row.Value(expr.IntValue(int64(i)))
		if i%3 == 0 {
			row.Value(expr.NullValue())
		} else {
			row.Value(expr.StringValue(fmt.Sprint("text ", i)))
		}
		row.Value(num(fmt.Sprintf("%d.25", i)))
		row.Value(expr.IntValue(int64(i)))
		must(t, row.finish())
		_, err := b.write(&row)
		must(t, err)
		if i%1000 == 999 {
			must(t, b.flush())
		}
	}
	must(t, b.close())
	f, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	must(t, err)
	var names []string
	for _, c := range f.Schema().Columns() {
		names = append(names, c[0])
	}
	if got := strings.Join(names, " "); got != "z a price at" || len(f.RowGroups()) != 3 {
		t.Errorf("columns %q in %d row groups", got, len(f.RowGroups()))
	}
	got, err := parquet.Read[struct {
		Z     *int64     `parquet:"z,optional"`
		A     *string    `parquet:"a,optional"`
		Price *int64     `parquet:"price,optional,decimal(2:9)"`
		At    *time.Time `parquet:"at,optional,timestamp(microsecond)"`
	}](bytes.NewReader(out.Bytes()), int64(out.Len()))
	must(t, err)
	for i, r := range got {
		if *r.Z != int64(i) || (r.A == nil) != (i%3 == 0) || r.A != nil && *r.A != fmt.Sprint("text ", i) || *r.Price != int64(i)*100+25 || r.At.UnixMilli() != int64(i) {
			t.Fatalf("row %d is %+v", i, r)
		}
	}
	if len(got) != rows {
		t.Errorf("%d rows", len(got))
	}
}

// Any text survives CSV; null and empty stay apart.
func TestCSV(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := rapid.String().Draw(rt, "a"), rapid.SampledFrom([]string{"", ",", "\"", "x\"y", "a\nb", "plain"}).Draw(rt, "b")
		c := &csvCells{}
		for i, v := range []expr.Value{expr.StringValue(a), expr.NullValue(), expr.StringValue(b), num("1.50")} {
			if err := c.add(i, v); err != nil {
				rt.Fatal(err)
			}
		}
		got, err := csv.NewReader(bytes.NewReader(c.line)).Read()
		// The reader turns \r\n into \n, and cannot tell null from empty.
		want := []string{strings.ReplaceAll(a, "\r\n", "\n"), "", strings.ReplaceAll(b, "\r\n", "\n"), "1.50"}
		if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
			rt.Fatalf("%q is read as %q, %v", c.line, got, err)
		}
		if a == "" && !bytes.HasPrefix(c.line, []byte(`"",,`)) {
			rt.Fatalf("empty and null are written %q", c.line)
		}
	})
}

// What is no document is rejected, what is spread over lines is put on one.
func TestDocuments(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\":\n 1}":       `{"a":1}`,
		`{"a": 1}`:           `{"a": 1}`,
		`{"a":"x\ny"}`:       `{"a":"x\ny"}`,
		"":                   "",
		`{"a":1`:             "",
		`{"a":1}{"b":2}`:     "",
		"{\"a\":\"\xff\"}":   "",
		`{"a":1,"a":2}`:      "",
		"9007199254740993.0": "9007199254740993.0",
	} {
		w := NewWriter(Config{Path: "x"})
		w.row = Row{cfg: &w.cfg}
		err := w.toRow(&stream.Record{Value: []byte(in)}, false)
		if want == "" && err == nil || want != "" && (err != nil || string(w.row.line) != want) {
			t.Errorf("%q becomes %q, %v; want %q", in, w.row.line, err, want)
		}
	}
	w := NewWriter(Config{Path: "x"})
	w.row = Row{cfg: &w.cfg}
	if err := w.toRow(&stream.Record{}, true); err != nil || string(w.row.line) != "null" {
		t.Errorf("a null value becomes %q, %v", w.row.line, err)
	}
}
