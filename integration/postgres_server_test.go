package integration

import (
	"bytes"
	"strings"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// The server is killed under running jobs, again and again, and comes back, as in a
// failover to a standby that had everything: they wait for it, or start again, and every
// row is there once.
func TestPostgresServerKilled(t *testing.T) {
	t.Parallel()
	b, s := kafkatest.Shared(t), pgtest.Start(t, pgtest.Config{})
	type one struct {
		d    *database
		j    *job
		r    *run
		stop func() int
	}
	var all []one
	for _, strategy := range []string{"prepared", "staged"} {
		d := newDatabase(t, s)
		j, in := newTableJob(t, b, d, strategy)
		all = append(all, one{d, j, j.start().running(), feed(t, b, in, 7, 3)})
	}
	for i := range 3 {
		for _, o := range all {
			o.r.checkpoints(2 * (i + 1))
		}
		s.Kill(t)
		s.Restart(t)
	}
	for _, o := range all {
		n := o.stop()
		o.d.counted(n, 7)
		o.j.must("stop")
		o.r.ends(0)
		o.d.counted(n, 7)
		o.d.settled()
	}
}

// What a server cannot give is said before the first record, with what would be needed,
// and is never replaced by something weaker; auto takes what works and says why.
func TestPostgresRefuses(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	d := newDatabase(t, pgtest.Start(t, pgtest.Config{Settings: map[string]string{"max_prepared_transactions": "0"}}))
	in := b.Topic(t, 3)
	j := newJob(t, b, intoTables, "IN="+in, "STRATEGY=auto", "DSN="+d.admin)
	j.refused(j.etl("sink init"), 3, "postgres.missing", "public.counted")
	d.exec(strings.Replace(tables, " PRIMARY KEY", "", 1))
	j.refused(j.etl("run"), 3, "postgres.no_unique_key", "mode upsert")
	d.exec("ALTER TABLE counted ADD PRIMARY KEY (k), ALTER c TYPE boolean USING true")
	j.refused(j.etl("run"), 3, "postgres.not_initialised", "etl sink init", "boolean") // all at once
	d.exec("ALTER TABLE counted ALTER c TYPE bigint USING 0")

	// What is printed is what has to be run.
	cmd := j.command("sink init", "--role", d.role)
	var said bytes.Buffer
	cmd.Stderr = &said
	script, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	d.exec(strings.ReplaceAll(string(script), "GRANT INSERT ON \"public\".\"copied\"", "-- "))
	j.set("DSN=" + d.worker)
	j.refused(j.etl("run"), 3, "postgres.permission", `GRANT INSERT ON "public"."copied"`)
	d.exec(string(script))

	j.set("STRATEGY=prepared")
	a := j.refused(j.etl("run"), 3, "postgres.prepared_disabled", "max_prepared_transactions of the server is 0", "needs 2")
	if !strings.Contains(a.Error.Message, "restart the server") {
		t.Errorf("no fix: %s", a.All)
	}
	j.set("STRATEGY=auto")
	produce(t, b, in, numbered(0, 30, 3, 3)...)
	r := j.start().running()
	if l := r.message("strategy chosen", 1); l.str("strategy") != "staged" || !strings.Contains(l.str("reason"), "max_prepared_transactions of the server is 0") {
		t.Errorf("chosen: %s", l.text)
	}
	d.counted(30, 3)
	j.must("stop")
	r.ends(0)
	d.is("SELECT has_schema_privilege('"+d.role+"', 'etl', 'CREATE') OR has_schema_privilege('"+d.role+"', 'public', 'CREATE')", "false")
}
