package config

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/checkpoint"
	"etl/pipeline"
	"etl/state"
	"etl/stream"
)

const planFile = `name: x
connections:
  main: { type: kafka, seed_brokers: ["a:1"] }
sources:
  in: { type: kafka, connection: main, topics: [t] }
transforms:
  counts: { type: aggregate, inputs: in, key: this.id, aggregates: { n: count } }
  fresh: { type: aggregate, inputs: in, key: this.id, aggregates: { n: count } }
sinks:
  out: { type: kafka, inputs: [counts, fresh], connection: main, topic: u }
`

func planJob(t *testing.T, more string) *Job {
	t.Helper()
	job, ps := (&Loader{Registry: fakeRegistry(), DataDir: "/data"}).Load("p.yaml", []byte(planFile+more))
	if job == nil {
		t.Fatal(ps)
	}
	return job
}

// planHistory is what an earlier life of the job has left: without fresh, with a
// component that is gone, and with a transaction that is not committed.
func planHistory(now time.Time, serializer string, max int) *checkpoint.History {
	lineage := stream.Lineage{1}
	id := stream.NewCheckpointID(3, 17)
	m := &checkpoint.Metadata{Version: 1, Job: "x", Lineage: lineage, ID: id, Kind: "periodic", PublishedAt: now.Add(-12 * time.Second), MaxParallelism: max, ConfigHash: "other",
		Operators: []checkpoint.OperatorMeta{
			{UID: "in", Kind: "source", Type: "kafka", Parallelism: 1}, {UID: "in-decode", Kind: "operator", Type: "decode", Parallelism: 1},
			{UID: "counts", Kind: "operator", Type: "aggregate", Parallelism: 1, Keyed: []state.Descriptor{{Name: "aggregate", Kind: "value", Serializer: serializer}}},
			{UID: "old", Kind: "operator", Type: "aggregate", Parallelism: 1, Keyed: []state.Descriptor{{Name: "aggregate", Kind: "value", Serializer: "s"}}},
			{UID: "out", Kind: "sink", Type: "kafka", Parallelism: 1}},
		Tasks: []checkpoint.TaskState{
			{TaskID: stream.TaskID{UID: "in"}, Splits: make([]stream.Split, 12)},
			{TaskID: stream.TaskID{UID: "counts"}, Handles: []state.Handle{{Role: state.BaseFile, Scope: state.Shared, Size: 3 << 29}}},
			{TaskID: stream.TaskID{UID: "old"}, Handles: []state.Handle{{Role: state.BaseFile, Scope: state.Shared, Size: 310 << 20}}}},
		Committables: []checkpoint.Committable{{Sink: "out", Checkpoint: id, Rows: 1204, Deadline: now.Add(12 * time.Minute), Sources: []stream.Range{{Topic: "t", From: 1, To: 9}}},
			{Sink: "out", Subtask: 1, Checkpoint: id, Rows: 3, Deadline: now.Add(-time.Minute)}}}
	return &checkpoint.History{Entries: []checkpoint.Entry{
		{Seq: 1, Kind: checkpoint.EntryAttempt, Attempt: 3, Lineage: lineage},
		{Seq: 2, Kind: checkpoint.EntryCheckpoint, Attempt: 3, Lineage: lineage, Metadata: m}}}
}

func TestPlanOfAStart(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	job := planJob(t, "")
	serializer := job.Graph.Node("counts").Operator.Keyed[0].Serializer
	plans := map[string]*Plan{
		"anew":            job.Plan(&checkpoint.History{}, now),
		"refused":         job.Plan(planHistory(now, serializer, 128), now),
		"dropped":         job.Plan(planHistory(now, serializer, 128), now, "old"),
		"changed-state":   job.Plan(planHistory(now, "another", 128), now, "old"),
		"max-parallelism": job.Plan(planHistory(now, serializer, 64), now, "old"),
	}
	datadriven.RunTest(t, "testdata/start", func(t *testing.T, d *datadriven.TestData) string {
		p := plans[d.Cmd]
		var b strings.Builder
		if d.Input == "json" {
			j, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			return string(j) + "\n"
		}
		if err := p.Render(&b, Style{}); err != nil {
			t.Fatal(err)
		}
		if err := p.Err(); err != nil {
			b.WriteString("\nexit " + string(rune('0'+stream.ClassOf(err).ExitCode())) + ": " + err.Error() + "\n")
		}
		return b.String()[strings.Index(b.String(), "\nstart\n")+1:]
	})
}

func TestOptions(t *testing.T) {
	opened := ""
	r := fakeRegistry()
	r.Storage("file", func(_ context.Context, _ stream.World, job string, url StorageURL) (checkpoint.Storage, error) {
		opened = url.String() + " for " + job
		return nil, nil
	})
	r.Backend("pebble", func(s BackendSpec) func(pipeline.BackendEnv) (state.Backend, error) {
		return func(pipeline.BackendEnv) (state.Backend, error) { return nil, errors.New(s.Dir + " " + s.Snapshot) }
	})
	job, ps := (&Loader{Registry: r, DataDir: "/data"}).Load("p.yaml", []byte(planFile+`
checkpoint: { min_pause: 0, tolerable_failures: 0, on_cancel: delete, snapshot: full }
restart: { strategy: none, initial: 3s }
`))
	if job == nil {
		t.Fatal(ps)
	}
	o, err := job.Options(t.Context(), stream.SystemWorld(nil))
	if err != nil {
		t.Fatal(err)
	}
	if opened != "file:/data/checkpoints for x" {
		t.Errorf("storage %q", opened)
	}
	if _, err := o.NewBackend(pipeline.BackendEnv{}); err == nil || err.Error() != "/data/state/x full" {
		t.Errorf("backend: %v", err)
	}
	if p := o.Policy.WithDefaults(); p.MinPause != 0 || p.TolerableFailures != 0 || p.Drain != 15*time.Minute-p.WorstAge() {
		t.Errorf("policy %+v", p)
	}
	if !o.DeleteOnCancel || o.Restart.Attempts != pipeline.NoRestart || o.Restart.Initial != 3*time.Second || o.ConfigHash != job.ConfigHash {
		t.Errorf("%+v", o)
	}
	delete(r.storages, "file")
	if _, err := job.Options(t.Context(), stream.SystemWorld(nil)); stream.CodeOf(err) != "checkpoint.storage" {
		t.Errorf("no storage: %v", err)
	}
}

func TestPreflight(t *testing.T) {
	for _, tc := range []struct {
		timeout time.Duration
		err     error
		class   stream.Class
		code    string
	}{
		{12 * time.Minute, nil, 0, ""},
		{10 * time.Minute, nil, stream.BadConfig, "checkpoint.transaction_too_short"},
		{0, stream.Errorf(stream.Environment, "kafka.acl", "ask", "a:1", "no"), stream.Environment, "kafka.acl"},
		{0, stream.Errorf(stream.Retry, "kafka.unreachable", "ask", "a:1", "no answer"), stream.Environment, "kafka.unreachable"},
	} {
		job := planJob(t, "")
		out := job.Components[len(job.Components)-1]
		out.parts.Preflight = func(context.Context, stream.World) (Facts, error) {
			return Facts{TransactionTimeout: tc.timeout}, tc.err
		}
		err := job.Preflight(t.Context(), stream.World{}).Err()
		if stream.CodeOf(err) != tc.code || err != nil && stream.ClassOf(err) != tc.class {
			t.Errorf("%v: %v", tc.timeout, err)
		}
		if err == nil && job.Policy.Drain != tc.timeout-job.Policy.WorstAge() {
			t.Errorf("drain %v", job.Policy.Drain)
		}
	}
}

func TestProblemsAsJSON(t *testing.T) {
	_, ps := (&Loader{Registry: fakeRegistry()}).Load("p.yaml", []byte("nmae: x\n"))
	b, err := json.Marshal(ps[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"code":"config.unknown_key","severity":"error","file":"p.yaml","line":1,"column":1,"path":"nmae","message":"unknown key \"nmae\"","fix":"did you mean`
	if !strings.HasPrefix(string(b), want) {
		t.Errorf("%s", b)
	}
	var out strings.Builder
	if err := ps.Render(&out, Style{Color: true}); err != nil || !strings.Contains(out.String(), "\x1b[31merror config.unknown_key\x1b[0m") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
