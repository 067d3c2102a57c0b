package sqltxn

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"etl/expr"
	"etl/internal/pgconn"
	"etl/stream"
)

// eval returns the value of an expression over a JSON document.
func eval(t testing.TB, src, doc string) (*expr.Evaluator, *expr.Program, *stream.Record) {
	t.Helper()
	p, err := expr.Compile(src, expr.Env{This: &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Any}}})
	if err != nil {
		t.Fatal(err)
	}
	return expr.NewEvaluator(), p, &stream.Record{Value: []byte(doc), Topic: "in"}
}

// give encodes the value this.v of a document into the next column.
func give(t testing.TB, row *Row, doc string) {
	t.Helper()
	ev, p, rec := eval(t, "this.v", doc)
	v, err := ev.Value(p, rec)
	if err != nil {
		t.Fatal(err)
	}
	if row.NextIsArray() && !v.IsNull() && v.Kind() == stream.List {
		row.List(func(add func(expr.Value) error) error {
			return ev.Each(p, rec, func() error { return add(ev.It()) })
		})
		return
	}
	row.Value(v)
}

// types are values of every type: the JSON, and what the server prints for it.
var types = []struct{ typ, json, want string }{
	{"bool", "true", "true"}, {"bool", "false", "false"}, {"bool", "null", "null"},
	{"int2", "-32768", "-32768"}, {"int4", "2147483647", "2147483647"}, {"int8", "9223372036854775807", "9223372036854775807"}, {"int8", "-9223372036854775808", "-9223372036854775808"},
	{"int4", "7.0", "7"}, {"int4", "1e3", "1000"},
	{"float4", "0.5", "0.5"}, {"float8", "0.1", "0.1"}, {"float8", "1e308", "1e+308"}, {"float8", "9007199254740993", "9.007199254740992e+15"},
	{"numeric", "9007199254740993.10", "9007199254740993.10"}, {"numeric", "-0.000123", "-0.000123"}, {"numeric", "1e-30", "0.000000000000000000000000000001"},
	{"numeric", "123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789"}, {"numeric", "0", "0"}, {"numeric", "0.00", "0.00"},
	{"numeric", "12345678", "12345678"}, {"numeric", "10000", "10000"}, {"numeric", "99990000", "99990000"}, {"numeric", "0.0001", "0.0001"}, {"numeric", "1e25", "10000000000000000000000000"},
	{"numeric(10,2)", "12.5", "12.50"}, {"numeric(10,2)", "-99999999.99", "-99999999.99"}, {"numeric(10,2)", "1.500", "1.50"}, {"numeric(4,-2)", "123400", "123400"},
	{"text", `"a\tb\u00e9日"`, "a\tbé日"}, {"text", `""`, ""}, {"varchar(3)", `"äöü"`, "äöü"}, {"varchar(3)", `"abc  "`, "abc"}, {"char(4)", `"ab"`, "ab"},
	{"bytea", `"a\u0000b"`, `\x610062`}, {"uuid", `"A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, {"uuid", `"a0eebc999c0b4ef8bb6d6bb9bd380a11"`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
	{"json", `{"b": 1.0,  "a":"\u0000"}`, `{"b": 1.0,  "a":"\u0000"}`}, {"jsonb", `{"b":1.0,"a":[1,null,"\u00e9\ud83d\ude00 \\u0000"]}`, `{"a": [1, null, "é😀 \\u0000"], "b": 1.0}`},
	{"jsonb", `"x"`, `"x"`}, {"jsonb", "12.30", "12.30"}, {"jsonb", "null", "null"}, {"jsonb", "[]", "[]"},
	{"timestamptz", `"2026-11-29T10:11:12.123456789+02:00"`, "2026-11-29 08:11:12.123457+00"}, {"timestamptz", `"1970-01-01 00:00:00Z"`, "1970-01-01 00:00:00+00"}, {"timestamptz", "1764403872001", "2025-11-29 08:11:12.001+00"},
	{"timestamptz", `"0001-01-01T00:00:00Z"`, "0001-01-01 00:00:00+00"}, {"timestamptz", `"9999-12-31T23:59:59Z"`, "9999-12-31 23:59:59+00"}, {"timestamptz", `"1999-12-31T23:59:59.5Z"`, "1999-12-31 23:59:59.5+00"},
	{"timestamp", `"2026-11-29T10:11:12.5"`, "2026-11-29 10:11:12.5"}, {"timestamp", "0", "1970-01-01 00:00:00"}, {"date", `"2000-01-01"`, "2000-01-01"}, {"date", `"1969-02-28"`, "1969-02-28"}, {"date", `"9999-12-31"`, "9999-12-31"},
	{"time", `"23:59:59.999999"`, "23:59:59.999999"}, {"time", `"07:30"`, "07:30:00"},
	{"mood", `"sad"`, "sad"}, {"mood", "null", "null"}, {"positive", "5", "5"}, {"label", `"x"`, "x"}, {"citext", `"AbC"`, "AbC"},
	{"int4[]", "[1,null,3]", "{1,NULL,3}"}, {"int4[]", "[]", "{}"}, {"int4[]", "null", "null"}, {"text[]", `["a,b","", "c\"d"]`, `{"a,b","","c\"d"}`}, {"numeric(6,2)[]", "[1.5,2]", "{1.50,2.00}"},
	{"uuid[]", `["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]`, "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"}, {"mood[]", `["ok"]`, "{ok}"}, {"jsonb[]", `[{"a":1}]`, `{"{\"a\": 1}"}`}, {"timestamptz[]", `[0]`, `{"1970-01-01 00:00:00+00"}`},
}

func typeLab(t testing.TB) *lab {
	l := newLab(t)
	l.run("CREATE EXTENSION IF NOT EXISTS citext", "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN positive AS int4 CHECK (VALUE > 0)", "CREATE DOMAIN label AS varchar(5) NOT NULL")
	return l
}

// Every type holds afterwards exactly what was given: by COPY, by upsert, as arrays of
// values and one by one, and by way of the staging table.
func TestTypesRoundTrip(t *testing.T) {
	l := typeLab(t)
	for _, c := range []struct {
		mode   Mode
		arrays bool
	}{{Append, true}, {Upsert, true}, {Upsert, false}} {
		columns, names, docs := "k int PRIMARY KEY", []string{"k"}, []string(nil)
		for i, v := range types {
			if c.arrays || !strings.Contains(v.typ, "[]") {
				name := fmt.Sprintf("c%d", i)
				columns += ", " + name + " " + v.typ
				names, docs = append(names, name), append(docs, `{"v":`+v.json+`}`)
			}
		}
		l.run("DROP TABLE IF EXISTS t", "CREATE TABLE t ("+columns+")", "DROP SCHEMA IF EXISTS etl CASCADE")
		g := l.target("t", c.mode, names, []string{"k"})
		rows, row := NewRows(NewMemory(stream.SystemFS{}, 1<<20, t.TempDir(), "x"), c.mode != Append, false), NewRow(g)
		row.Reset()
		row.Value(expr.IntValue(1))
		for _, doc := range docs {
			give(t, row, doc)
		}
		l.must(rows.Add(row, &stream.Record{}))
		check := func(how string) {
			t.Helper()
			for _, name := range names[1:] {
				n, _ := strconv.Atoi(name[1:])
				if v := types[n]; l.text("SELECT "+name+" FROM t") != v.want {
					t.Errorf("%s %s %s %s: %q, want %q", how, c.mode, v.typ, v.json, l.text("SELECT "+name+" FROM t"), v.want)
				}
			}
		}
		l.must(l.write(g, rows, nil))
		check("direct")
		l.run("DELETE FROM t")
		l.throughStage(g, rows)
		check("staged")
	}
}

// throughStage stages and merges an epoch.
func (l *lab) throughStage(g *Target, rows *Rows) {
	l.Helper()
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		l.must(l.book.Enter(ctx, c, 1))
		l.must(l.book.Stage(ctx, c, g, 1, 0, id, rows, nil, second))
		m := l.book.MergeOf(g, rows.Reduced())
		l.must(m.Check())
		got, _, err := l.book.Apply(ctx, c, Application{Merge: &m, ID: id, Rows: int64(rows.Len()), Attempt: 1, LockTimeout: second})
		if got != Applied {
			l.Errorf("merged: %v", got)
		}
		return err
	})
}

// What cannot be stored as it is, is refused before it reaches the server, and no value is
// in the message.
func TestTypesRefuse(t *testing.T) {
	l := typeLab(t)
	for _, c := range []struct{ typ, json string }{
		{"bool", "1"}, {"bool", `"true"`}, {"int2", "32768"}, {"int4", "-2147483649"}, {"int4", "1.5"}, {"int8", "9223372036854775808"}, {"int4", `"1"`}, {"int4", "true"},
		{"float4", "1e39"}, {"float8", "1e400"}, {"float8", `"1"`}, {"numeric(4,2)", "1.005"}, {"numeric(4,2)", "100"}, {"numeric(4,-2)", "50"}, {"numeric", `"1"`},
		{"text", "77777"}, {"text", "true"}, {"text", `"x\u0000"`}, {"text", `["x"]`}, {"varchar(3)", `"canary"`}, {"char(2)", `"abc"`}, {"bytea", "77777"}, {"uuid", `"canary"`}, {"uuid", `"g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`},
		{"jsonb", `{"a":"x\u0000"}`}, {"jsonb", `["\ud800"]`}, {"jsonb", `["\ude00"]`}, {"jsonb", `["\ud83dx"]`},
		{"timestamptz", `"2026-11-29T10:11:12"`}, {"timestamptz", `"canary"`}, {"timestamptz", "1.5"}, {"timestamptz", "99999999999999999"}, {"timestamp", `"2026-11-29T10:11:12Z"`}, {"date", `"2026-02-30"`}, {"date", "0"}, {"time", `"24:00:01"`},
		{"mood", `"canary"`}, {"mood", "1"}, {"label", `"canary"`}, {"int4[]", "1"}, {"int4[]", `["canary"]`}, {"int4[]", "[[1]]"}, {"text[]", `["x\u0000"]`}, {"mood[]", `["canary"]`},
	} {
		l.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (v "+c.typ+")")
		g := l.target("t", Append, []string{"v"}, nil)
		row := NewRow(g)
		row.Reset()
		give(t, row, `{"v":`+c.json+`}`)
		err := row.finish()
		if stream.CodeOf(err) != "postgres.value" || !strings.Contains(err.Error(), "column v") {
			t.Errorf("%s %s: %v", c.typ, c.json, err)
		} else if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "77777") {
			t.Errorf("a value is in the message: %v", err)
		}
	}
}

// What can never fit is found from the types alone.
func TestAccepts(t *testing.T) {
	l := typeLab(t)
	l.run("CREATE TABLE t (b bool, i int4, n numeric, s text, u uuid, j jsonb, z timestamptz, e mood, a int4[], p point)")
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		tab, err := LoadTable(ctx, c, "public", "t")
		if err != nil {
			return err
		}
		for name, kinds := range map[string]string{"b": "bool", "i": "int decimal", "n": "int decimal", "s": "string", "u": "string", "j": "bool int decimal string list object", "z": "string int", "e": "string", "a": "list"} {
			for _, k := range []stream.Kind{stream.Bool, stream.Int, stream.Decimal, stream.String, stream.List, stream.Object} {
				want := strings.Contains(kinds, k.String())
				if err := tab.Column(name).Type.Accepts(k); (err == nil) != want {
					t.Errorf("%s takes %s: %v", name, k, err)
				}
			}
			if tab.Column(name).Type.Accepts(stream.Any) != nil || tab.Column(name).Type.Accepts(stream.Null) != nil {
				t.Errorf("%s refuses what is not known yet", name)
			}
		}
		if tab.Column("p").Type != nil {
			t.Error("points can be written")
		}
		return nil
	})
}
