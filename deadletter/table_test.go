package deadletter

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"etl/config"
	"etl/config/postgres"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/stream"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tableOf is a table of letters in a database of its own.
func tableOf(t *testing.T, ddl string, columns config.Map[config.Expr]) (Table, *pgx.Conn) {
	t.Helper()
	dsn := pgtest.Shared(t).NewDatabase(t)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // the server goes, too
	if _, err := c.Exec(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}
	return Table{postgres.Letters{Sink: "dead", Conn: pgconn.Config{DSN: dsn}, Schema: "public", Table: "dead", Fields: config.LetterFieldsOf(columns)}}, c
}

// read reads a table: each letter in a line.
func read(t *testing.T, table Table) (out []string, ids []ID, others int64, err error) {
	t.Helper()
	others, err = table.Read(t.Context(), stream.SystemWorld(nil), func(l *Found) error {
		if l.Sink != "dead" || l.At != fmt.Sprintf("%x", l.ID[:8]) {
			t.Errorf("%+v lies at %s", l.Letter, l.At)
		}
		out = append(out, fmt.Sprintf("%s/%d@%d %d %s %s %s %v %s %s %s", l.Topic, l.Letter.Partition, l.Letter.Offset, l.Timestamp, l.Component, l.Code, l.Message, l.Made, l.Key, l.Value, l.Headers))
		ids = append(ids, l.ID)
		return nil
	})
	return out, ids, others, err
}

// each field is a column of its own name.
func eachField(without ...string) (m config.Map[config.Expr]) {
	for _, f := range append(append([]string{}, config.LetterReasons...), config.LetterRecord...) {
		if len(without) == 0 || f != without[0] {
			m = append(m, config.Pair[config.Expr]{Key: f, Value: config.Expr(" this." + f + " ")})
		}
	}
	return m
}

const oneLetter = `{"topic":"t","partition":3,"offset":7,"timestamp":1700000000123,"component":"c","code":"x.y","message":"it is bad","made":true,"key":null,"key_base64":"AP8=","value":"v","value_base64":null,"headers":[{"key":"h","value":"1","value_base64":null}]}`

// A letter reads the same from every form that a table may have, and is the same letter in
// each, whatever else the row holds.
func TestTable(t *testing.T) {
	const columns = `made bool, key text, key_base64 text, value text, value_base64 varchar`
	want := "t/3@7 1700000000123 c x.y it is bad true \x00\xff v [{h 1}]"
	var id *ID
	for name, of := range map[string]struct {
		ddl     string
		columns config.Map[config.Expr]
	}{
		"plain types":  {`CREATE TABLE dead (topic text, partition int, "offset" bigint, timestamp bigint, component text, code text, message text, headers jsonb, ` + columns + `)`, eachField()},
		"other types":  {`CREATE DOMAIN word AS varchar(20); CREATE TABLE dead (topic word, partition numeric, "offset" int, timestamp timestamptz, component varchar(9), code word, message text, headers json, ` + columns + `, seen int)`, eachField()},
		"without zone": {`CREATE TABLE dead (topic text, partition smallint, "offset" bigint, timestamp timestamp, component text, code text, message text, headers jsonb, ` + columns + `)`, eachField()},
		"whole":        {`CREATE TABLE dead (letter json, code text)`, config.Map[config.Expr]{{Key: "letter", Value: "this"}, {Key: "code", Value: "this.code"}}},
		"whole, jsonb": {`CREATE TABLE dead (letter jsonb)`, config.Map[config.Expr]{{Key: "letter", Value: "this"}}},
	} {
		table, c := tableOf(t, of.ddl, of.columns)
		insert := `INSERT INTO dead (letter) SELECT v FROM (SELECT $1::json AS v, generate_series(1, 2)) x`
		stamp := "v->>'timestamp'"
		if table.From.Fields.Whole == "" {
			switch name {
			case "other types":
				stamp = "to_timestamp((" + stamp + ")::bigint / 1000.0)"
			case "without zone":
				stamp = "to_timestamp((" + stamp + ")::bigint / 1000.0) AT TIME ZONE 'UTC'"
			default:
				stamp = "(" + stamp + ")::bigint"
			}
			insert = `INSERT INTO dead (topic, partition, "offset", timestamp, component, code, message, made, key_base64, value, headers)
				SELECT v->>'topic', (v->>'partition')::int, (v->>'offset')::int, ` + stamp + `, v->>'component', v->>'code', v->>'message', true, v->>'key_base64', v->>'value', (v->>'headers')::json
				FROM (SELECT $1::json AS v, generate_series(1, 2)) x`
		} else if name == "whole, jsonb" {
			insert = strings.Replace(insert, "::json", "::jsonb", 1)
		}
		for _, sql := range []struct {
			text string
			args []any
		}{{insert, []any{oneLetter}}, {"INSERT INTO dead DEFAULT VALUES", nil}} {
			if _, err := c.Exec(t.Context(), sql.text, sql.args...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, ids, others, err := read(t, table)
		if err != nil || len(got) != 1 || got[0] != want || others != 1 || table.Records() != nil {
			t.Errorf("%s: %q and %d others, %v", name, got, others, err)
			continue
		}
		if name != "whole, jsonb" && name != "whole" {
			if id != nil && *id != ids[0] {
				t.Errorf("%s: the letter is another one", name)
			}
			id = &ids[0]
		}
	}
}

// Only committed rows are read, in the order of their IDs whatever that of the rows.
func TestTableCommitted(t *testing.T) {
	table, c := tableOf(t, `CREATE TABLE dead (letter jsonb)`, config.Map[config.Expr]{{Key: "letter", Value: "this"}})
	put := func(from, to int) {
		if _, err := c.Exec(t.Context(), `INSERT INTO dead SELECT jsonb_set($1::jsonb, '{offset}', to_jsonb(n)) FROM generate_series($2::int, $3::int) n`, oneLetter, from, to); err != nil {
			t.Fatal(err)
		}
	}
	put(1, 50)
	_, before, _, err := read(t, table)
	if err != nil || len(before) != 50 {
		t.Fatalf("%d letters, %v", len(before), err)
	}
	tx := func(sql string) {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	tx("BEGIN")
	put(51, 100)
	if _, ids, _, err := read(t, table); err != nil || len(ids) != 50 {
		t.Errorf("of an open transaction %d letters are read, %v", len(ids), err)
	}
	tx("COMMIT; UPDATE dead SET letter = letter || '{\"value\":\"mended\"}' WHERE (letter->>'offset')::int % 2 = 0; CREATE INDEX ON dead ((letter->>'offset') DESC); CLUSTER dead USING dead_expr_idx")
	lines, after, _, err := read(t, table)
	if err != nil || len(after) != 100 || !strings.Contains(strings.Join(lines, "\n"), "mended") {
		t.Fatalf("%d letters, %v", len(after), err)
	}
	kept := before
	for i, id := range after {
		if i > 0 && string(id[:]) <= string(after[i-1][:]) {
			t.Errorf("letter %d is not in order", i)
		}
		if len(kept) > 0 && kept[0] == id {
			kept = kept[1:]
		}
	}
	if len(kept) > 0 {
		t.Errorf("%d letters are not the same any more", len(kept))
	}
}

// Numbers and times that no letter has are not known; the rest of their rows, and all other
// rows, are read all the same.
func TestTableNumbers(t *testing.T) {
	table, c := tableOf(t, `CREATE TABLE dead (topic text, partition numeric, "offset" numeric, timestamp timestamptz, component text, code text, message text, made bool, key text, key_base64 text, value text, value_base64 text, headers jsonb)`, eachField())
	put := func(offset, timestamp string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), `INSERT INTO dead (topic, partition, "offset", timestamp, component, code, message, value) VALUES ('t', 3, $1::text::numeric, $2::text::timestamptz, 'c', 'x.y', 'of ' || $1, 'v')`, offset, timestamp); err != nil {
			t.Fatal(err)
		}
	}
	const known = "2023-11-14 22:13:20.123+00"
	var want []string
	for offset, shown := range map[string]string{"7.0": "7", "9223372036854775807": "9223372036854775807", "9223372036854775808": "-1", "-9223372036854775809": "-1", "1e40": "-1", "7.5": "-1", "NaN": "-1", "Infinity": "-1", "-Infinity": "-1"} {
		put(offset, known)
		want = append(want, "t/3@"+shown+" 1700000000123 c x.y of "+offset+" false  v []")
	}
	for _, at := range []string{"infinity", "-infinity"} {
		put("1", at)
	}
	want = append(want, "t/3@1 -1 c x.y of 1 false  v []") // the rows agree in what tells letters apart
	got, _, others, err := read(t, table)
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || others != 0 || !slices.Equal(got, want) {
		t.Errorf("%q and %d others, %v; want %q", got, others, err, want)
	}
}

// What cannot be read says what it wants.
func TestTableRefuses(t *testing.T) {
	const rest = `topic text, partition int, timestamp bigint, component text, message text, made bool, key text, key_base64 text, value text, value_base64 text, headers jsonb`
	for _, c := range []struct{ ddl, code, want string }{
		{`CREATE TABLE other ()`, pgconn.CodeMissing, "there is no such table"},
		{`CREATE TABLE dead (code text, ` + rest + `)`, pgconn.CodeMissing, `there is no column "offset"`},
		{`CREATE TABLE dead ("offset" text, code text, ` + rest + `)`, "dlq.column", `column "offset" is of type text, from which offset cannot be read back -> make it bigint`},
		{`CREATE TABLE dead ("offset" bigint, code char(9), ` + rest + `)`, "dlq.column", `column "code" is of type bpchar, from which code cannot be read back -> make it text or varchar`},
		{`CREATE TABLE dead ("offset" bigint, code text, ` + strings.Replace(rest, "headers jsonb", "headers text", 1) + `)`, "dlq.column", "make it json or jsonb"},
		{`CREATE TABLE dead ("offset" bigint, code text, ` + strings.Replace(rest, "value text", "value bytea", 1) + `)`, "dlq.column", "is of type bytea"},
	} {
		table, _ := tableOf(t, c.ddl, eachField())
		_, _, _, err := read(t, table)
		if stream.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.ddl, err)
		}
	}
	table, _ := tableOf(t, `CREATE TABLE dead ("offset" bigint, code text, `+rest+`); CREATE ROLE nobody_`+strings.ToLower(t.Name())+` LOGIN PASSWORD 'x'`, eachField("headers"))
	if err := table.Records(); stream.CodeOf(err) != "dlq.fields" || !strings.Contains(err.Error(), "public.dead holds no headers") || !strings.Contains(err.Error(), "add to columns: { headers: this.headers }") {
		t.Errorf("%v", err)
	}
	u, err := url.Parse(table.From.Conn.DSN)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("nobody_" + strings.ToLower(t.Name()))
	table.From.Conn.DSN, table.From.Conn.Password = u.String(), "x"
	if _, _, _, err := read(t, table); stream.CodeOf(err) != pgconn.CodePermission {
		t.Errorf("%v", err)
	}
	table, c := tableOf(t, `CREATE TABLE dead (letter jsonb)`, config.Map[config.Expr]{{Key: "letter", Value: "this"}})
	if _, err := c.Exec(t.Context(), `INSERT INTO dead VALUES ($1::jsonb)`, oneLetter); err != nil {
		t.Fatal(err)
	}
	ends := errors.New("enough")
	if _, err := table.Read(t.Context(), stream.SystemWorld(nil), func(*Found) error { return ends }); !errors.Is(err, ends) {
		t.Errorf("a reader that has enough: %v", err)
	}
}
