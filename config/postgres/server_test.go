package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"etl/config"
	"etl/internal/pgtest"
	"etl/pipeline"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner(m)) }

// load loads a pipeline with a sink on a database of a real server.
func load(t *testing.T, ddl, sink string) (*config.Job, *pgx.Conn) {
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
	l := loader()
	l.Outside.LookupEnv = func(string) (string, bool) { return dsn, true }
	job, ps := l.Load("p.yaml", []byte(`
name: job
connections:
  events: { type: kafka, seed_brokers: ["localhost:9092"] }
  db: { type: postgres, dsn: "${PG_DSN}" }
sources:
  in: { type: kafka, connection: events, topics: [in] }
sinks:
  out: { type: postgres, inputs: [in], connection: db, `+sink+` }
`))
	if ps.Failed() {
		t.Fatal(ps)
	}
	return job, c
}

func world() stream.World { return stream.SystemWorld(nil) }

// rejected collects what a writer rejects.
type rejected []string

func (r *rejected) Reject(rec stream.Record, err error) {
	*r = append(*r, fmt.Sprintf("%d: %v", rec.Offset, err))
}

// write writes records, "key value" or "key" for one without a value, and commits them.
func write(t *testing.T, job *config.Job, records ...string) (bad rejected) {
	t.Helper()
	w := job.Graph.Node("out").Sink.NewWriter()
	defer w.Close() //nolint:errcheck // it never fails
	if err := w.Open(t.Context(), stream.Env{World: world(), Job: "job", Attempt: 1, UID: "out", Parallelism: 1}, nil); err != nil {
		t.Fatal(err)
	}
	b := stream.NewBatch(&stream.Schema{Format: stream.JSON})
	for i, r := range records {
		b.Append(record(b, i, r))
	}
	if err := w.Write(t.Context(), b, &bad); err != nil {
		t.Fatal(err)
	}
	p, err := w.PrepareCommit(t.Context(), stream.NewCheckpointID(1, 1), &bad)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return bad
}

func record(b *stream.Batch, i int, text string) stream.Record {
	key, value, ok := strings.Cut(text, " ")
	r := stream.Record{Topic: "in", Offset: int64(i), Key: b.Copy([]byte(key)), Timestamp: 1_000, Pos: -1}
	if ok {
		r.Value = b.Copy([]byte(value))
	}
	return r
}

func shows(t *testing.T, c *pgx.Conn, sql, want string) {
	t.Helper()
	var got string
	if err := c.QueryRow(t.Context(), "SELECT coalesce(("+sql+")::text, 'null')").Scan(&got); err != nil || got != want {
		t.Errorf("%s\ngot  %s (%v)\nwant %s", sql, got, err, want)
	}
}

// TestColumns: expressions of every kind arrive in columns of every type, whole; lists in
// arrays; a record without a value deletes by its key alone; what does not fit is rejected.
func TestColumns(t *testing.T) {
	job, c := load(t, `CREATE TYPE mood AS ENUM ('good', 'bad');
		CREATE TABLE t (id int PRIMARY KEY, n numeric, f float8, s text, u uuid, at timestamptz, j jsonb, tags text[], ns numeric[], m mood, b bytea, ok bool)`,
		`table: t, mode: upsert_delete, key: id, delivery: at_least_once, on_error: skip, columns: { n: this.n, f: this.f, id: int(meta.key), s: this.s, u: this.u,
			at: meta.timestamp, j: this.j, tags: this.tags, ns: this.ns, m: this.m, b: this.s, ok: this.n > 1 }`)
	bad := write(t, job,
		`1 {"n":9007199254740993.10,"f":0.5,"s":"ü","u":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8","j":{"a":[1,"x"]},"tags":["a",null,"c"],"ns":[1.50,2],"m":"good"}`,
		`2 {"n":1}`,
		`3 {"n":3}`,
		`3`,
		`4 {"n":4,"m":"so so"}`,
		`5 {"n":5,"tags":"a"}`,
		`x {"n":6}`,
	)
	shows(t, c, "SELECT row_to_json(t) FROM t WHERE id = 1", `{"id":1,"n":9007199254740993.10,"f":0.5,"s":"ü","u":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","at":"`+
		value(t, c, "SELECT to_json(to_timestamp(1))#>>'{}'")+`","j":{"a": [1, "x"]},"tags":["a",null,"c"],"ns":[1.50,2],"m":"good","b":"\\xc3bc","ok":true}`)
	shows(t, c, "SELECT string_agg(id || ':' || ok, ' ' ORDER BY id) FROM t", "1:true 2:false")
	if len(bad) != 3 || !strings.Contains(bad[0], "column m") || !strings.Contains(bad[1], "tags") && !strings.Contains(bad[1], "list") || !strings.Contains(bad[2], "int") {
		t.Errorf("rejected: %s", strings.Join(bad, "\n"))
	}
	for _, r := range bad {
		if strings.Contains(r, "so so") {
			t.Errorf("a message holds a value: %s", r)
		}
	}
}

func value(t *testing.T, c *pgx.Conn, sql string) (s string) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKeysAsStored: what the table calls one key goes through one subtask, once the server
// has told the types.
func TestKeysAsStored(t *testing.T) {
	job, _ := load(t, "CREATE TABLE t (u uuid, at timestamptz, n numeric, PRIMARY KEY (u, at, n))",
		`table: t, mode: upsert, key: [u, at, n], delivery: at_least_once, columns: { u: this.u, at: this.at, n: this.n }`)
	same := []string{
		`- {"u":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8","at":"2026-01-02T03:04:05Z","n":1.0}`,
		`- {"u":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","at":"2026-01-02T04:04:05+01:00","n":1}`,
	}
	other := `- {"u":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","at":"2026-01-02T04:04:06+01:00","n":1}`
	if ps := job.Preflight(t.Context(), world()); ps.Failed() {
		t.Fatal(ps)
	}
	groups := map[string]int{}
	for _, text := range append(same, other) {
		groups[group(t, job.Graph.Node("out").Inputs[0].Key, text)]++
	}
	if len(groups) != 2 || groups[group(t, job.Graph.Node("out").Inputs[0].Key, same[0])] != 2 {
		t.Errorf("%d keys, of two values: %v", len(groups), groups)
	}
	if s := job.Graph.Node("out").Inputs[0].Key.Text; s != "this.u, this.at, this.n" {
		t.Errorf("the key is %s", s)
	}
}

func group(t *testing.T, k *pipeline.Key, text string) string {
	t.Helper()
	b := stream.NewBatch(&stream.Schema{Format: stream.JSON})
	b.Append(record(b, 0, text))
	err := k.New().Key(b, func(_ int, err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return string(b.Records[0].Group)
}

// TestPreflight: what only the server knows is reported at the keys of the file, all at
// once; when all is well the plan says what was chosen.
func TestPreflight(t *testing.T) {
	job, c := load(t, "CREATE UNLOGGED TABLE t (id bigint, b boolean, g int GENERATED ALWAYS AS (1) STORED)",
		`table: t, mode: upsert, key: id, columns: { id: meta.offset, b: meta.offset, g: this.g, gone: this.x }`)
	ps := job.Preflight(t.Context(), world())
	var got []string
	for _, p := range ps {
		got = append(got, p.Path+" "+p.Code)
	}
	want := "sinks.out.table postgres.unlogged, sinks.out.columns.g postgres.column, sinks.out.columns.gone postgres.column"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s\n%v", s, want, ps)
	}
	if _, err := c.Exec(t.Context(), "ALTER TABLE t SET LOGGED, DROP g, ADD g int, ADD gone text, ADD PRIMARY KEY (id)"); err != nil {
		t.Fatal(err)
	}
	if ps := job.Preflight(t.Context(), world()); !ps.Failed() || !strings.Contains(ps.Error(), "columns.b: b: an int is not a value of type boolean") {
		t.Errorf("the types are not compared: %v", ps)
	}
	if _, err := c.Exec(t.Context(), "ALTER TABLE t DROP b, ADD b int"); err != nil {
		t.Fatal(err)
	}
	if _, ps := job.Setup(t.Context(), world(), "", true); ps.Failed() {
		t.Fatal(ps)
	}
	if ps := job.Preflight(t.Context(), world()); ps.Failed() {
		t.Fatal(ps)
	}
	notes := strings.Join(job.Guarantees()[0].Notes, "\n")
	for _, part := range []string{"strategy staged, because the rows of a prepared transaction would stay locked", "PostgreSQL ", "max_prepared_transactions 64"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes lack %q:\n%s", part, notes)
		}
	}
}
