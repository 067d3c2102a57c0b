// Package spool is an example of a sink of one's own: exactly-once rows in a folder, as
// files of text, with two phases. It uses nothing but the contracts of the project, and
// passes their conformance suite (spool_test.go). docs/write-your-own-sink.md goes
// through it.
//
//	<dir>/job=<job>/sink=<sink>/.prepared/<lineage>/<subtask>-<attempt>-<n>    an epoch's rows, hidden
//	<dir>/job=<job>/sink=<sink>/<lineage>/<subtask>-<attempt>-<n>.jsonl        the same file, committed
//
// Job and sink are in the path because several may share the folder, the lineage because
// a job of the same name may have had an earlier life, the attempt because two processes
// must never write the same file.
//
// To commit is to rename: one step that either happened or did not. So the committed
// file is its own marker, and readers must leave the newest one of each subtask there.
package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"etl/checkpoint"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// Spool is what a pipeline is given: it makes the two halves of the sink.
type Spool struct{ Dir string }

// Kind and Version say how to read the payload of a committable. Never change what a
// version means: a committable may be read by a later program.
const (
	Kind    = "spool"
	Version = 1
)

// NewWriter returns phase one.
func (s Spool) NewWriter() sink.Writer { return &writer{dir: s.Dir} }

// NewCommitter returns phase two.
func (s Spool) NewCommitter() sink.Committer { return &committer{dir: s.Dir} }

// Features say what the sink promises; the plan and the conformance suite read them.
func (s Spool) Features() sink.Features {
	return sink.Features{Transactional: true, Marker: true, Ordered: true, AppendOnly: true}
}

// Line is one row as it is written.
type Line struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// writer is phase one on one subtask. Nobody else calls it, so it needs no lock.
type writer struct {
	dir  string
	env  stream.Env
	rows []Line
}

// Open gets the state of the restored checkpoint: this sink has none, since all of an
// epoch is in its file.
func (w *writer) Open(_ context.Context, env stream.Env, _ []state.Handle) error {
	w.env, w.dir = env, home(w.dir, env.Job, env.UID)
	for _, dir := range []string{path.Join(w.dir, ".prepared", env.Lineage.String()), path.Join(w.dir, env.Lineage.String())} {
		if err := env.FS.MkdirAll(dir, 0o755); err != nil {
			return unusable("open", dir, err)
		}
	}
	return nil
}

// Write takes what it needs of the records before it releases their batch.
func (w *writer) Write(_ context.Context, b *stream.Batch, _ sink.Output) error {
	defer b.Release()
	for i := range b.Records {
		w.rows = append(w.rows, Line{string(b.Records[i].Key), string(b.Records[i].Value)})
	}
	return nil
}

// PrepareCommit is quick: it cuts the epoch and leaves the slow part to Finish.
func (w *writer) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	p := &pending{w: w, id: id, rows: w.rows}
	w.rows = nil
	return p, nil
}

func (w *writer) Published(stream.CheckpointID)                      {}
func (w *writer) Resolved(stream.CheckpointID, bool)                 {}
func (w *writer) Aborted(context.Context, stream.CheckpointID) error { return nil } // the next checkpoint lists what this one prepared
func (w *writer) Close() error                                       { return nil } // and ends nothing

// pending is the epoch of one checkpoint.
type pending struct {
	w    *writer
	id   stream.CheckpointID
	rows []Line
}

// Finish makes the rows durable. An epoch without rows leaves nothing. A file of the
// name can only be of a Finish of this very epoch that was cut off, and no checkpoint
// lists it: it is written anew.
func (p *pending) Finish(context.Context, state.Uploader) (sink.Prepared, error) {
	if len(p.rows) == 0 {
		return sink.Prepared{}, nil
	}
	env := p.w.env
	dir := path.Join(p.w.dir, ".prepared", env.Lineage.String())
	name := fileName(env.Subtask, p.id)
	if err := write(env.FS, path.Join(dir, name), p.rows); err != nil {
		return sink.Prepared{}, stream.Errorf(stream.Restart, "spool.write", "prepare", name, "%w", err)
	}
	if err := env.FS.SyncDir(dir); err != nil {
		return sink.Prepared{}, stream.Errorf(stream.Restart, "spool.write", "prepare", name, "%w", err)
	}
	c := checkpoint.Committable{Sink: env.UID, Subtask: env.Subtask, Checkpoint: p.id, Attempt: env.Attempt, Kind: Kind, Version: Version,
		Payload: []byte(name), Rows: int64(len(p.rows))}
	return sink.Prepared{Committables: []checkpoint.Committable{c}}, nil
}

// home is where the files of one sink of one job are. What is escaped cannot lead out
// of the folder, and no two sinks share a home.
func home(dir, job string, uid stream.UID) string {
	return path.Join(dir, "job="+url.PathEscape(job), "sink="+url.PathEscape(string(uid)))
}

func fileName(subtask int, id stream.CheckpointID) string {
	return fmt.Sprintf("%d-%d-%d", subtask, id.Attempt(), id.N())
}

// parse reads what fileName writes.
func parse(name string) (subtask int, id stream.CheckpointID, ok bool) {
	var attempt stream.Attempt
	var n uint32
	_, err := fmt.Sscanf(name, "%d-%d-%d", &subtask, &attempt, &n)
	id = stream.NewCheckpointID(attempt, n)
	return subtask, id, err == nil && fileName(subtask, id) == name
}

func write(f stream.FS, name string, rows []Line) (err error) {
	if err := f.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := f.Create(name, 0o644)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range rows {
		b, err := json.Marshal(r)
		if err != nil {
			return errors.Join(err, out.Close())
		}
		text.Write(append(b, '\n'))
	}
	_, err = out.Write([]byte(text.String()))
	return errors.Join(err, out.Sync(), out.Close())
}

// unusable is an error that another attempt would meet, too.
func unusable(op, what string, err error) error {
	return stream.Errorf(stream.Environment, "spool.unusable", op, what, "%w", err)
}
