package verify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/stream"
)

// appended is a table that a job appended to, and the records that it read.
type appended struct {
	t    *testing.T
	dsn  string
	conn *pgx.Conn
	spec Spec
	in   []string // record i is the one with offset i/2 of partition i%2
}

func newAppended(t *testing.T, create string, columns ...Field) *appended {
	t.Helper()
	a := &appended{t: t, dsn: pgtest.Shared(t).NewDatabase(t)}
	var err error
	a.conn, err = pgx.Connect(t.Context(), a.dsn)
	must(t, err)
	t.Cleanup(func() { _ = a.conn.Close(context.Background()) })
	a.exec(create)
	a.spec = Spec{Name: "shop", Sources: []Source{{Name: "in", Topics: []string{inTopic}}},
		Sinks: []Sink{{Name: "rows", Inputs: []string{"in"}, Append: &AppendSink{
			Postgres: PostgresTable{Conn: pgconn.Config{DSN: a.dsn}, Schema: "public", Table: "Orders"}, Columns: columns}}}}
	return a
}

func (a *appended) exec(sql string) {
	a.t.Helper()
	_, err := a.conn.Exec(context.Background(), sql) // also in a cleanup
	must(a.t, err)
}

// judge recounts the table.
func (a *appended) judge() (*Result, error) {
	a.t.Helper()
	o := Options{Finished: true}
	o.withDefaults()
	c, err := newRecounting(&a.spec, &o)
	must(a.t, err)
	if err := c.readTarget(a.t.Context(), c.targets[0]); err != nil {
		return nil, err
	}
	for i, value := range a.in {
		r := &stream.Record{Topic: inTopic, Partition: int32(i % 2), Offset: int64(i / 2), Value: []byte(value), Pos: -1}
		c.r.RecordsIn++
		c.enter(c.order[0], r)
	}
	return c.conclude(), nil
}

// wants recounts, and wants these counts.
func (a *appended) wants(what string, want Counts) *Result {
	a.t.Helper()
	r, err := a.judge()
	must(a.t, err)
	if r.Counts != want || r.OK != (want == Counts{}) {
		a.t.Errorf("%s: want %+v:\n%s", what, want, describe(r))
	}
	return r
}

// tampered does something to the table, wants it noticed, and takes it back.
func (a *appended) tampered(sql string, want Counts) *Result {
	a.t.Helper()
	a.exec("BEGIN; CREATE TEMPORARY TABLE before ON COMMIT DROP AS SELECT * FROM \"Orders\"; CREATE TABLE kept AS SELECT * FROM before; COMMIT")
	a.exec(sql)
	r := a.wants(sql, want)
	a.exec(`TRUNCATE "Orders"; INSERT INTO "Orders" SELECT * FROM kept; DROP TABLE kept`)
	return r
}

// everyType has a column of each type that can be compared, and one that cannot; its rows
// lie in two partitions.
const everyType = `CREATE TYPE mood AS ENUM ('glad', 'sad');
	CREATE TABLE "Orders" ("Id" bigint, small smallint, price numeric(12,2), ok boolean, name text, code varchar(9), ref uuid, feel mood,
		ratio double precision, part real, at timestamptz, seen timestamp, day date, doc jsonb, raw json, bytes bytea, short timestamptz(3)) PARTITION BY HASH ("Id");
	CREATE TABLE orders_a PARTITION OF "Orders" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE orders_b PARTITION OF "Orders" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	SET TIME ZONE 'Asia/Kathmandu'`

func newEveryType(t *testing.T) *appended {
	var columns []Field
	for _, name := range []string{"Id", "small", "price", "ok", "name", "code", "ref", "feel", "ratio", "part", "at", "seen", "day", "doc", "raw", "bytes", "short"} {
		columns = append(columns, Field{name, "this." + name})
	}
	a := newAppended(t, everyType, columns...)
	for i := range 40 {
		id := 9007199254740993 + i
		a.in = append(a.in, fmt.Sprintf(`{"Id":%d,"small":%d.0,"price":%d.5,"ok":%v,"name":"\u00e9 \"%d\" <&>","code":"","ref":"A0EEBC999C0B4EF8BB6D6BB9BD38%04d","feel":"sad",
			"ratio":1e-%d,"part":0.1,"at":"2026-11-29T00:59:30.%06d7+01:00","seen":%d,"day":"2026-11-29","doc":{"b": [1.50, %d],"a":null},"raw":{"b":"\u0041","a":%d},"bytes":"x","short":"2026-11-29T00:00:00.1236Z"}`,
			id, i, i, i%2 == 0, i, i, i, i, i, i, i))
		a.exec(fmt.Sprintf(`INSERT INTO "Orders" VALUES (%d, %d, %d.50, %v, 'é "%d" <&>', '', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd38%04d', 'sad',
			1e-%d, 0.1, '2026-11-28T23:59:30Z'::timestamptz + interval '%d microseconds', '1970-01-01T00:00:00'::timestamp + interval '%d milliseconds', '2026-11-29', '{"a":null,"b":[1.5,%d]}', '{"a": %d, "b": "A"}', 'x', '2026-11-29T00:00:00.1236Z')`,
			id, i, i, i%2 == 0, i, i, i, i+1, i, i, i))
	}
	a.in = append(a.in, `{"Id":1}`, `{"Id":1}`)
	a.exec(`INSERT INTO "Orders" ("Id") VALUES (1), (1)`)
	return a
}

// A table that rows were appended to, of all types, in the words of the server.
func TestAppendedTable(t *testing.T) {
	a := newEveryType(t)
	r := a.wants("as it is", Counts{})
	if r.RecordsOut != 42 || !notChecked(r, "bytes, short: values of their types") || !notChecked(r, "order: a table keeps none") || len(r.LeftOut) > 0 {
		t.Error(describe(r))
	}
}

// Whatever is done to a row, it is noticed, and the finding says where the row lies.
func TestTamperedTable(t *testing.T) {
	a := newEveryType(t)
	one := fmt.Sprintf(`WHERE "Id" = %d`, 9007199254740993+7)
	a.tampered(`DELETE FROM "Orders" `+one, Counts{Missing: 1})
	a.tampered(`DELETE FROM "Orders" WHERE ctid = (SELECT max(ctid) FROM "Orders" WHERE "Id" = 1) AND "Id" = 1`, Counts{Behind: 1})
	r := a.tampered(`INSERT INTO "Orders" SELECT * FROM "Orders" `+one, Counts{Duplicated: 1})
	if len(r.Examples) != 1 || !strings.HasPrefix(r.Examples[0].Place, "orders_") || !strings.Contains(r.Examples[0].Place, "ctid (") {
		t.Errorf("%+v", r.Examples)
	}
	a.tampered(`INSERT INTO "Orders" ("Id") VALUES (1)`, Counts{Duplicated: 1})
	a.tampered(`INSERT INTO "Orders" ("Id") VALUES (2)`, Counts{Altered: 1})
	for _, set := range []string{`small = 8`, `small = NULL`, `price = price + 0.01`, `ok = NOT ok`, `name = name || ' '`, `code = NULL`, `code = 'x'`, `feel = 'glad'`,
		`ref = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380008'`, `ratio = 1.0000000000000002e-7`, `part = 0.10000001`, `at = at + interval '1 microsecond'`, `at = 'infinity'`,
		`seen = seen - interval '1 microsecond'`, `day = day + 1`, `doc = '{"a":null,"b":[7,1.5]}'`, `doc = '{"b":[1.5,7]}'`, `raw = '{"a": "7", "b": "A"}'`} {
		a.tampered(`UPDATE "Orders" SET `+set+" "+one, Counts{Altered: 1})
	}
}

// The job's role may write and not read: the recount says what is missing.
func TestTableThatCannotBeRead(t *testing.T) {
	a := newAppended(t, `CREATE TABLE "Orders" (id int)`, Field{"id", "this.id"})
	role := fmt.Sprintf("writer_%d", a.conn.PgConn().PID())
	a.exec("CREATE ROLE " + role + " LOGIN PASSWORD 'w'; GRANT INSERT ON \"Orders\" TO " + role)
	t.Cleanup(func() { a.exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	u, err := url.Parse(a.dsn)
	must(t, err)
	u.User = url.UserPassword(role, "w")
	a.spec.Sinks[0].Append.Postgres.Conn.DSN = u.String()
	_, err = a.judge()
	var e *stream.Error
	if !errors.As(err, &e) || e.Class != stream.Environment || e.Code != pgconn.CodePermission || !strings.Contains(e.Fix, `GRANT SELECT ON "public"."Orders"`) {
		t.Error(err)
	}
}

// countedTable appends the running results of an aggregate, in an order that tells nothing.
func countedTable(t *testing.T, emit string, aggregates []Aggregate, columns ...Field) *appended {
	a := newAppended(t, `CREATE TABLE "Orders" (who text, n bigint, total numeric)`, columns...)
	a.spec.Transforms = []Transform{{Name: "sums", Type: "aggregate", Inputs: []string{"in"}, Key: []string{"this.who"}, Emit: emit, Aggregates: aggregates}}
	a.spec.Sinks[0].Inputs, a.spec.Sinks[0].Parallelism = []string{"sums"}, 2
	type sum struct{ n, total int }
	var rows []string
	sums := map[string]sum{}
	for i := range 60 {
		who := []string{`é`, `b"`, `<c>`}[i%3]
		s := sums[who]
		s.n, s.total = s.n+1, s.total+i
		sums[who] = s
		a.in = append(a.in, fmt.Sprintf(`{"who":%q,"x":%d}`, who, i))
		if emit == "on_change" || i > 56 || i%5 == 0 {
			rows = append(rows, fmt.Sprintf("('%s', %d, %d)", who, s.n, s.total))
		}
	}
	slices.Reverse(rows)
	a.exec(`INSERT INTO "Orders" (who, n, total) VALUES ` + strings.Join(rows, ", "))
	return a
}

var (
	countAndTotal = []Aggregate{{Name: "n", Op: "count"}, {Name: "total", Op: "sum", Of: "this.x"}}
	shownCounts   = []Field{{"total", "this.total"}, {"who", "this.key"}, {"n", "this.n"}}
)

// Running results that show a plain count have an order again.
func TestCountsInTable(t *testing.T) {
	a := countedTable(t, "on_change", countAndTotal, shownCounts...)
	a.wants("as it is", Counts{})
	a.tampered(`DELETE FROM "Orders" WHERE who = 'é' AND n = 7`, Counts{Missing: 1})
	a.tampered(`INSERT INTO "Orders" SELECT * FROM "Orders" WHERE who = 'é' AND n = 7`, Counts{Duplicated: 1})
	a.tampered(`UPDATE "Orders" SET total = total + 1 WHERE who = 'b"' AND n = 7`, Counts{Altered: 1})
	a.tampered(`INSERT INTO "Orders" VALUES ('nobody', 1, 1)`, Counts{Altered: 1})
	b := countedTable(t, "on_checkpoint", countAndTotal, shownCounts...)
	b.wants("as it is", Counts{})
	b.tampered(`INSERT INTO "Orders" SELECT * FROM "Orders" WHERE who = 'é' AND n = 20`, Counts{Duplicated: 1})
	for _, sql := range []string{`DELETE FROM "Orders" WHERE who = 'é' AND n = 20`, `UPDATE "Orders" SET total = total + 1 WHERE who = '<c>' AND n = 20`} {
		b.exec(sql)
		if r, err := b.judge(); err != nil || r.OK {
			t.Errorf("%s: %v\n%s", sql, err, describe(r))
		}
	}
}

// Others have none, which is said, and nothing is claimed.
func TestResultsWithoutOrder(t *testing.T) {
	a := countedTable(t, "on_change", countAndTotal, Field{"who", "this.key"}, Field{"total", "this.total"})
	r := a.wants("without a count", Counts{})
	if !slices.Equal(r.LeftOut, []string{"rows"}) || !notChecked(r, "give it a result of type count") || !strings.Contains(describe(r), "OK (not checked at all: rows)") {
		t.Error(describe(r))
	}
}
