package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// Commit moves the files of a committable to where readers look (B10, V5).
func (c *Committer) Commit(_ context.Context, permit checkpoint.Permit, cm checkpoint.Committable) (sink.Result, error) {
	if !permit.Covers(&cm) {
		return sink.Result{}, fmt.Errorf("I5: checkpoint %s of %s is not covered by the permit of %s", cm.Checkpoint, cm.Lane(), permit.ID())
	}
	p, err := decode(&cm)
	if err != nil {
		return sink.Result{}, err
	}
	fault.Point("file.commit.before")
	r, err := c.commit(p, &cm)
	switch {
	case err != nil && passes(err):
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	case err != nil && stream.CodeOf(err) == "":
		return sink.Result{}, environment("commit", fmt.Sprintf("checkpoint %s of %s", cm.Checkpoint, cm.Lane()), err)
	case err == nil && (r.Outcome == sink.Done || r.Outcome == sink.Already):
		c.mu.Lock()
		c.newest[cm.Subtask] = max(c.newest[cm.Subtask], cm.Checkpoint)
		c.mu.Unlock()
	}
	return r, err
}

func (c *Committer) commit(p *payload, cm *checkpoint.Committable) (sink.Result, error) {
	s, err := c.look(p, cm)
	if err != nil {
		return sink.Result{}, err
	}
	dir := c.dirOf(cm)
	decided, err := exists(c.fs, path.Join(dir, intent))
	switch {
	case err != nil:
		return sink.Result{}, err
	case s.Status == sink.Gone:
		return sink.Result{Outcome: sink.Lost, Detail: s.Detail}, nil
	case !decided && s.Status == sink.Committed: // its intent was removed when nobody needed it any more
		return sink.Result{Outcome: sink.Already, ByMarker: true, Detail: s.Detail}, nil
	case !decided && s.Marker > cm.Checkpoint:
		return sink.Result{}, fmt.Errorf("I5: checkpoint %s of %s is open behind %s, which is committed", cm.Checkpoint, cm.Lane(), s.Marker)
	}
	if !decided && !broken.Is(broken.IntentOmitted) {
		if err := c.decide(p, cm, dir); errors.Is(err, fs.ErrNotExist) {
			return c.outcome(dir, false) // fenced, or somebody else has decided the same
		} else if err != nil {
			return sink.Result{}, err
		}
	}
	moved, err := c.moveAll(p, dir)
	if err != nil {
		return sink.Result{}, err
	}
	return c.outcome(dir, decided && moved == 0)
}

// outcome looks at the intent once more: a process that was stopped may have been fenced
// since, and then it has moved nothing.
func (c *Committer) outcome(dir string, before bool) (sink.Result, error) {
	still, err := exists(c.fs, path.Join(dir, intent))
	switch {
	case err != nil:
		return sink.Result{}, err
	case !still && !broken.Is(broken.IntentOmitted):
		return sink.Result{Outcome: sink.Lost, Detail: dir + " was fenced"}, nil
	case before:
		return sink.Result{Outcome: sink.Already}, nil
	}
	return sink.Result{Outcome: sink.Done}, nil
}

// record is what an intent holds, for people and for etl txn; that it is there is what
// counts. docs/formats/file.md describes it.
type record struct {
	Version    int                 `json:"version"`
	Lineage    stream.Lineage      `json:"lineage"`
	Attempt    stream.Attempt      `json:"attempt"` // that committed
	Job        string              `json:"job"`
	Sink       stream.UID          `json:"sink"`
	Subtask    int                 `json:"subtask"`
	Checkpoint stream.CheckpointID `json:"checkpoint"`
	Files      []part              `json:"files"`
}

// draftPrefix begins the name of an intent that is not whole yet.
const draftPrefix = "draft-"

// decide makes the intent durable. It appears whole or not at all, and only where the
// epoch's directory still has its name. Somebody who is quicker has decided the same.
func (c *Committer) decide(p *payload, cm *checkpoint.Committable, dir string) error {
	b, err := json.Marshal(record{Version: Version, Lineage: c.env.Lineage, Attempt: c.env.Attempt, Job: c.env.Job, Sink: cm.Sink,
		Subtask: cm.Subtask, Checkpoint: cm.Checkpoint, Files: p.Files})
	if err != nil {
		return err
	}
	draft := path.Join(dir, fmt.Sprint(draftPrefix, c.env.Attempt))
	if err := c.fs.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeFile(c.fs, draft, append(b, '\n')); err != nil {
		return err
	}
	switch err := renameNew(c.fs, draft, path.Join(dir, intent)); {
	case errors.Is(err, fs.ErrExist):
		if err := c.fs.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	case err != nil:
		return err
	}
	if err := c.fs.SyncDir(dir); err != nil {
		return err
	}
	fault.Point("file.commit.intent")
	return nil
}

// writeFile makes a file with its contents durable; its name is not yet.
func writeFile(f stream.FS, name string, b []byte) error {
	h, err := f.Create(name, fileMode)
	if err != nil {
		return err
	}
	_, err = h.Write(b)
	if err == nil {
		err = h.Sync()
	}
	return errors.Join(err, h.Close())
}

// moveAll moves what is still pending, makes it durable, and returns how many files that
// were.
func (c *Committer) moveAll(p *payload, dir string) (moved int, err error) {
	if err := c.tryRename(dir); err != nil {
		return 0, err
	}
	var dirs []string
	for i := range p.Files {
		f := &p.Files[i]
		did, err := c.move(f, dir)
		if err != nil {
			return moved, err
		}
		if did {
			moved++
		}
		if to := path.Dir(f.Final); !slices.Contains(dirs, to) {
			dirs = append(dirs, to)
		}
		fault.Point("file.commit.moved")
	}
	if err := c.removeDrafts(dir); err != nil {
		return moved, err
	}
	// Also when nothing was left to move: whoever moved it may have died before this.
	for _, to := range append(dirs, dir) {
		if err := c.fs.SyncDir(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return moved, stream.Errorf(stream.Environment, "file.sync", "commit", to, "%w", err).
				WithFix("look after the disk: what a failed sync leaves behind is not known")
		}
	}
	fault.Point("file.commit.synced")
	return moved, nil
}

// tryRename renames a file of its own, once: linked must know how the file system
// renames before the first part moves. What it leaves when it is cut off is a draft.
func (c *Committer) tryRename(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.fs.(twoStep); !ok || c.tried {
		return nil
	}
	from := path.Join(dir, fmt.Sprint(draftPrefix, c.env.Attempt, "-rename"))
	to := from + "d"
	for _, left := range []string{from, to} {
		if err := c.fs.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := writeFile(c.fs, from, nil); err != nil {
		return err
	}
	if err := renameNew(c.fs, from, to); err != nil {
		return err
	}
	c.tried = true
	return c.fs.Remove(to)
}

// removeDrafts removes what processes left that died in front of the intent.
func (c *Committer) removeDrafts(dir string) error {
	names, err := list(c.fs, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, draftPrefix) {
			continue
		}
		if err := c.fs.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// move gives one file its place. A file that is no longer pending was moved before: what
// became of it since is its readers' business.
func (c *Committer) move(f *part, dir string) (did bool, err error) {
	from := path.Join(dir, f.Pending)
	if ok, err := exists(c.fs, from); !ok || err != nil {
		return false, err
	}
	if linked(c.fs, from) {
		return true, c.fs.Remove(from)
	}
	if err := c.makePlace(path.Dir(f.Final)); err != nil {
		return false, err
	}
	rename := renameNew
	if broken.Is(broken.PartReplaces) {
		rename = func(f stream.FS, from, to string) error { return f.Rename(from, to) }
	}
	switch err := rename(c.fs, from, f.Final); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		return c.taken(f, from)
	case errors.Is(err, fs.ErrNotExist): // a zombie was quicker, or a reader removed the empty directory
		still, serr := exists(c.fs, from)
		if serr == nil && still {
			c.forget()
			serr = err
		}
		return false, serr
	default:
		return false, err
	}
}

// twoStep is a file system that may have to rename in two steps.
type twoStep interface{ twoSteps() bool }

// linked reports whether a pending file has two names where a rename is a second name
// and a removal: a process died in between, and the second name may have gone on since.
func linked(f stream.FS, name string) bool {
	if t, ok := f.(twoStep); !ok || !t.twoSteps() {
		return false
	}
	info, err := f.Stat(name)
	return err == nil && links(info) > 1
}

// taken settles that the place of a file is taken: by the file itself, or by a stranger.
func (c *Committer) taken(f *part, from string) (bool, error) {
	same, err := c.holds(f)
	switch {
	case err != nil:
		return false, err
	case !same:
		return false, stream.Errorf(stream.Environment, "file.name_taken", "commit", f.Final, "the sink's path has another file of this name, which is not the sink's").
			WithFix("move that file away and start the job again: its rows wait in %s", from)
	}
	if err := c.fs.Remove(from); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// holds reports whether the file at its final place is the one that was written.
func (c *Committer) holds(f *part) (bool, error) {
	h, err := c.fs.Open(f.Final)
	if err != nil {
		return false, err
	}
	defer h.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, h)
	return err == nil && n == f.Size && sum.Sum32() == f.Sum, err
}

// makePlace makes the directory of a partition, durably.
func (c *Committer) makePlace(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return makeDurable(c.fs, dir, c.durable)
}

// forget lets makePlace look again.
func (c *Committer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.durable)
}
