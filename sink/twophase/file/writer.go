package file

import (
	"context"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"

	"etl/sink"
	"etl/state"
	"etl/stream"
)

// Writer is phase one of the sink on one subtask.
type Writer struct {
	cfg  Config
	env  stream.Env
	fs   stream.FS
	home string // of the lineage

	encode Encoder
	row    Row
	cur    *epoch // nil until the first row
	serial uint32

	retired atomic.Uint64 // a stream.CheckpointID
	pruned  stream.CheckpointID

	mu     sync.Mutex
	sealed []count // not resolved
}

// count is the number of rows of a prepared epoch.
type count struct {
	id   stream.CheckpointID
	rows int64
}

// NewWriter returns a writer of a sink. Config need not have its defaults.
func NewWriter(cfg Config) *Writer { return &Writer{cfg: cfg.WithDefaults()} }

var _ sink.Writer = (*Writer)(nil)

// Open makes the directories. A writer has no state of its own.
func (w *Writer) Open(_ context.Context, env stream.Env, _ []state.Handle) error {
	w.env = env
	if w.env.Counters == nil {
		w.env.Counters = new(stream.Counters)
	}
	w.row = Row{cfg: &w.cfg, cells: w.cfg.newCells()}
	if w.cfg.NewEncoder != nil {
		w.encode = w.cfg.NewEncoder()
	}
	if name := partName(env.Job, env.UID, env.Lineage, stream.NewCheckpointID(1<<31, 1<<31), env.Subtask, 1<<20, w.cfg.extension()); len(name) > maxName {
		return stream.Errorf(stream.BadConfig, "file.names", "open sink", env.Task().String(), "the names of its files would have %d bytes, and %d are possible", len(name), maxName).
			WithFix("shorten the pipeline's or the sink's name")
	}
	home, err := w.make()
	if err != nil {
		return environment("open sink", env.Task().String(), fmt.Errorf("path %s: %w", w.cfg.Path, err))
	}
	w.home = home
	return nil
}

// make makes the home of the lineage, durably.
func (w *Writer) make() (home string, err error) {
	if w.fs, err = confine(w.env.FS, w.cfg.Path); err != nil {
		return "", err
	}
	home = path.Join(homeOf(w.env.Job, w.env.UID), w.env.Lineage.String())
	return home, makeDurable(w.fs, home, map[string]bool{})
}

// makeDurable makes a directory and its parents so that they survive a loss of power.
// known are those that do.
func makeDurable(f stream.FS, dir string, known map[string]bool) error {
	if known[dir] {
		return nil
	}
	if err := f.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for at := dir; at != "."; at = path.Dir(at) {
		if err := f.SyncDir(path.Dir(at)); err != nil {
			return err
		}
	}
	known[dir] = true
	return nil
}

// Write adds the rows of b to files (R7). It takes over the reference to b.
func (w *Writer) Write(_ context.Context, b *stream.Batch, out sink.Output) error {
	defer b.Release()
	now, rows, bytes := w.env.Clock.Now(), int64(0), int64(0)
	checked := b.Schema != nil && b.Schema.Format == stream.JSON
	for i := range b.Records {
		r := &b.Records[i]
		if err := w.toRow(r, checked); err != nil {
			out.Reject(*r, rejected(err))
			continue
		}
		if w.cur == nil {
			var err error
			if w.cur, err = w.newEpoch(); err != nil {
				return err
			}
		}
		if err := w.cur.write(&w.row, now); err != nil {
			return err
		}
		rows, bytes = rows+1, bytes+int64(len(r.Key)+len(r.Value))
	}
	w.env.Counters.RecordsOut.Add(rows)
	w.env.Counters.BytesOut.Add(bytes)
	w.env.Counters.Uncommitted.Add(rows)
	if w.cur == nil {
		return nil
	}
	return w.cur.tidy(now)
}

// toRow makes the row of a record; checked says that its value is known to be JSON.
func (w *Writer) toRow(r *stream.Record, checked bool) error {
	w.row.reset()
	if w.encode == nil {
		w.row.Whole(r)
	} else if err := w.encode(r, &w.row); err != nil {
		return err
	}
	if !checked {
		if err := w.row.check(); err != nil {
			return err
		}
	}
	return w.row.finish()
}

// PrepareCommit seals the open epoch (B4). It waits for nothing.
func (w *Writer) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	e := w.cur
	w.cur = nil
	if e != nil {
		w.mu.Lock()
		w.sealed = append(w.sealed, count{id, e.rows})
		w.mu.Unlock()
	}
	return &pending{w: w, e: e, id: id}, nil
}

// Published has nothing to do: rows are on the disk before a checkpoint is.
func (w *Writer) Published(stream.CheckpointID) {}

// Resolved notes what is committed, and up to where intents may go. It comes from the
// ledger at any time.
func (w *Writer) Resolved(id stream.CheckpointID, retired bool) {
	if retired {
		w.retired.Store(max(w.retired.Load(), uint64(id)))
	}
	rows := int64(0)
	w.mu.Lock()
	for len(w.sealed) > 0 && w.sealed[0].id <= id {
		rows += w.sealed[0].rows
		w.sealed = w.sealed[1:]
	}
	w.mu.Unlock()
	w.env.Counters.Uncommitted.Add(-rows)
}

// prune removes the intents of the lane that nobody will ask about again: those of
// retired checkpoints, less the newest, which is the marker.
func (w *Writer) prune() error {
	upTo := stream.CheckpointID(w.retired.Load())
	if upTo <= w.pruned {
		return nil
	}
	w.pruned = upTo
	dirs, err := committed(w.fs, w.home, w.env.Subtask)
	if err != nil {
		return restarts("remove old intents", w.home, err)
	}
	for i, d := range dirs {
		if i == 0 || d.checkpoint() > upTo {
			continue // the newest is the marker
		}
		if err := removeDir(w.fs, path.Join(w.home, d.String())); err != nil {
			return restarts("remove old intents", w.home, err)
		}
	}
	return nil
}

// Aborted has nothing to do: the files of an aborted checkpoint stay prepared, and the
// next checkpoint lists them (I7).
func (w *Writer) Aborted(context.Context, stream.CheckpointID) error { return nil }

// Close gives handles back. What is open or prepared stays for the ledger or the next
// attempt.
func (w *Writer) Close() error {
	if w.cur != nil {
		w.cur.abandon()
		w.cur = nil
	}
	return closeFS(w.fs)
}

// closeFS closes a file system that has something to close.
func closeFS(f stream.FS) error {
	if c, ok := f.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
