package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/fault"
	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

// run is one attempt of a job with one subtask, as far as its sink sees it.
type run struct {
	*lab
	a *checkpoint.Attempt
	o checkpoint.Objects
	u *checkpoint.Uploader
	w sink.Writer
	c sink.Committer
	n uint32
	// staged is what was prepared and is not listed as resolved.
	staged []checkpoint.Committable
	bad    int
}

func (l *lab) run(st checkpoint.Storage) *run {
	l.Helper()
	w, ctx := stream.SystemWorld(nil), l.Context()
	must := func(err error) {
		l.Helper()
		if err != nil {
			l.Fatal(err)
		}
	}
	must(l.cfg.Initialise(ctx, w, "job", "out", ""))
	a, err := checkpoint.OpenAttempt(ctx, st, checkpoint.AttemptOptions{World: w, Holder: checkpoint.Holder{Host: "test"}})
	must(err)
	r := &run{lab: l, a: a, o: checkpoint.NewObjects(st), u: checkpoint.NewUploader(checkpoint.UploaderOptions{Storage: st, World: w, Lineage: a.Lineage(), Attempt: a.Number(), InlineBelow: -1})}
	s := New(l.cfg)
	r.w, r.c = s.NewWriter(), s.NewCommitter()
	h := a.History()
	must(r.c.Open(ctx, sink.CommitEnv{World: w, Job: "job", Lineage: a.Lineage(), Attempt: a.Number(), UID: "out", Objects: r.o, Owners: h.Owners(a.Number()), Fresh: h.Newest() == nil}))
	must(r.w.Open(ctx, stream.Env{World: w, Job: "job", Lineage: a.Lineage(), Attempt: a.Number(), UID: "out", Parallelism: 1, MaxParallelism: 128}, nil))
	l.Cleanup(r.close)
	return r
}

func (r *run) close() {
	_, _ = r.w.Close(), r.c.Close()
	r.u.Close()
}

// Reject implements sink.Output.
func (r *run) Reject(stream.Record, error) { r.bad++ }

func (r *run) write(rows ...string) {
	r.Helper()
	b := stream.NewBatch(&stream.Schema{Format: stream.Text})
	for i, kv := range rows {
		k, v, _ := strings.Cut(kv, "=")
		b.Append(stream.Record{Key: b.Copy([]byte(k)), Value: b.Copy([]byte(v)), Topic: "in", Partition: 2, Offset: int64(i), Timestamp: 1, Pos: -1})
	}
	if err := r.w.Write(r.Context(), b, r); err != nil {
		r.Fatal(err)
	}
}

// publish takes a checkpoint up to its publication.
func (r *run) publish() (checkpoint.Permit, []checkpoint.Committable) {
	r.Helper()
	r.n++
	id := stream.NewCheckpointID(r.a.Number(), r.n)
	p, err := r.w.PrepareCommit(r.Context(), id, r)
	if err != nil {
		r.Fatal(err)
	}
	got, err := p.Finish(r.Context(), r.u)
	if err != nil {
		r.Fatal(err)
	}
	r.staged = append(r.staged, got.Committables...)
	permit, err := r.a.Publish(r.Context(), &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "job", Lineage: r.a.Lineage(), ID: id, Kind: "periodic", Mode: "exactly_once", MaxParallelism: 128, Committables: r.staged})
	if err != nil {
		r.Fatal(err)
	}
	r.w.Published(id)
	return permit, r.staged
}

func (r *run) commit(p checkpoint.Permit, cs []checkpoint.Committable) (res sink.Result, err error) {
	for _, c := range cs {
		if res, err = r.c.Commit(r.Context(), p, c); err != nil {
			return res, err
		}
	}
	return res, nil
}

// A row that only the server refuses stops the job, or goes aside with all it holds, in
// the transaction of the others.
func TestRowRefusedAfterThePermit(t *testing.T) {
	for _, sorted := range []bool{false, true} {
		t.Run(fmt.Sprint(sorted), func(t *testing.T) {
			l := newLab(t, pgtest.Shared(t), func(c *Config) { c.Sort = sorted })
			r := l.run(memstore.New("x"))
			r.write("a=1", "b=-2", "c=3", "d=-4", "e=5")
			res, err := r.commit(r.publish())
			if !sorted {
				if stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "postgres.row_after_publish" {
					t.Fatal(err)
				}
				if got := l.text("SELECT count(*) FROM out"); got != "0" {
					t.Errorf("%s rows are there", got)
				}
				l.exec("ALTER DOMAIN natural_number DROP CONSTRAINT natural_number_check")
				if res, err := r.commit(checkpoint.Permit{}, nil); err != nil {
					t.Fatal(res, err)
				}
				return
			}
			if err != nil || res.Outcome != sink.Done || res.Rejects != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			if got := l.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM out"); got != "a1 c3 e5" {
				t.Errorf("readers see %s", got)
			}
			if got := l.text(`SELECT string_agg(seq || ' ' || source || ' ' || code || ' ' || row, ' | ' ORDER BY seq) FROM etl.reject`); got != `1 in/2@1 23514 {"k": "b", "n": -2} | 3 in/2@3 23514 {"k": "d", "n": -4}` {
				t.Errorf("put aside are %s", got)
			}
			if got := l.text("SELECT rows FROM etl.marker"); got != "3" {
				t.Errorf("the marker speaks of %s rows", got)
			}
		})
	}
}

// The window of every write-ahead log: the rows are delivered, the process dies before
// anything says so, and the next attempt restores the checkpoint and delivers again. The
// same where the whole checkpoint is gone and an older one is to be restored: the marker
// is ahead of it.
func TestConfirmationLost(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	st := memstore.New("x")
	r := l.run(st)
	r.write("a=1", "b=2")
	permit, cs := r.publish()
	died := false
	fault.Watch(func(name string) { died = died || name == "wal.delivered" })
	res, err := r.commit(permit, cs)
	fault.Watch(nil)
	if err != nil || res.Outcome != sink.Done || !died {
		t.Fatalf("%+v, %v, point passed: %v", res, err, died)
	}
	// Nothing of it is written down. The next attempt:
	next := l.run(st)
	got, err := next.c.Probe(t.Context(), cs, time.Now())
	if err != nil || got[0].Status != sink.Committed || got[0].Marker != cs[0].Checkpoint {
		t.Fatalf("%+v, %v", got, err)
	}
	again, err := next.a.Restored(cs[0].Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	if res, err = next.commit(again, cs); err != nil || res.Outcome != sink.Already || !res.ByMarker {
		t.Fatalf("%+v, %v", res, err)
	}
	if m, err := next.c.Marker(t.Context(), 0); err != nil || m != cs[0].Checkpoint {
		t.Fatalf("marker %s, %v: an older checkpoint could be restored", m, err)
	}
	if got := l.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM out"); got != "a1 b2" {
		t.Errorf("readers see %s", got)
	}
}

// Rows that wait for a column of another type are not written as something else, and wait
// on.
func TestTypeChangedWhileRowsWait(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	r := l.run(memstore.New("x"))
	r.write("a=1")
	permit, cs := r.publish()
	l.exec("ALTER TABLE out ALTER n TYPE int4")
	if _, err := r.commit(permit, cs); stream.CodeOf(err) != "wal.type_changed" {
		t.Fatal(err)
	}
	l.exec("ALTER TABLE out ALTER n TYPE int8")
	if res, err := r.commit(permit, cs); err != nil || res.Outcome != sink.Done {
		t.Fatalf("%+v, %v", res, err)
	}
}

// An epoch of several chunks, some of them from disk, is reduced as one: of a key in two
// chunks the later row counts, and deletes delete.
func TestLargeEpoch(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) {
		c.Mode, c.Key, c.Memory = sqltxn.UpsertDelete, []string{"k"}, 1
	})
	r := l.run(memstore.New("x"))
	const keys, pad = 3000, 100
	for round := range 3 {
		var rows []string
		for i := range keys {
			rows = append(rows, fmt.Sprintf("%d%s=%d", i, strings.Repeat("x", pad), round*keys+i))
		}
		r.write(rows...)
	}
	permit, cs := r.publish()
	if len(cs[0].Objects) < 2 {
		t.Fatalf("%d segments", len(cs[0].Objects))
	}
	if res, err := r.commit(permit, cs); err != nil || res.Outcome != sink.Done {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := l.text("SELECT count(*) || ' ' || min(n) || ' ' || max(n) FROM out"); got != fmt.Sprintf("%d %d %d", keys, 2*keys, 3*keys-1) {
		t.Errorf("count, min, max: %s", got)
	}
}

// A segment that was damaged is refused by name, and nothing of the epoch is written.
func TestDamagedSegment(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	r := l.run(memstore.New("x"))
	r.write("a=1", "b=2")
	permit, cs := r.publish()
	for what, damage := range map[string]func(c *checkpoint.Committable){
		"checksum": func(c *checkpoint.Committable) { c.Objects[0].CRC++ },
		"rows":     func(c *checkpoint.Committable) { c.Rows++ },
	} {
		c := cs[0]
		c.Objects = append(c.Objects[:0:0], c.Objects...)
		damage(&c)
		if _, err := r.commit(permit, []checkpoint.Committable{c}); stream.ClassOf(err) != stream.RestoreRefused {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := l.text("SELECT count(*) FROM out"); got != "0" {
		t.Errorf("%s rows are there", got)
	}
	if res, err := r.commit(permit, cs); err != nil || res.Outcome != sink.Done {
		t.Fatalf("%+v, %v", res, err)
	}
}
