package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// committer is phase two. It works from committables alone: the process that wrote the
// rows may be long gone.
type committer struct {
	dir string
	env sink.CommitEnv
}

func (c *committer) Open(_ context.Context, env sink.CommitEnv) error {
	c.env, c.dir = env, home(c.dir, env.Job, env.UID)
	return nil
}

func (c *committer) Close() error { return nil }

func (c *committer) prepared(name string) string {
	return path.Join(c.dir, ".prepared", c.env.Lineage.String(), name)
}

func (c *committer) visible(name string) string {
	return path.Join(c.dir, c.env.Lineage.String(), name+".jsonl")
}

// read checks a committable before it is believed.
func read(k *checkpoint.Committable) (name string, err error) {
	subtask, id, ok := parse(string(k.Payload))
	if k.Kind != Kind || k.Version != Version || !ok || subtask != k.Subtask || id != k.Checkpoint {
		return "", stream.Errorf(stream.RestoreRefused, "spool.committable", "read committable", sink.Name(k), "kind %q version %d, payload %q", k.Kind, k.Version, k.Payload)
	}
	return string(k.Payload), nil
}

func (c *committer) has(name string) (bool, error) {
	_, err := c.env.FS.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Probe only looks. It looks for the prepared file first: who commits in between is
// seen in the second place.
func (c *committer) Probe(_ context.Context, ks []checkpoint.Committable, _ time.Time) (out []sink.Probed, err error) {
	for i := range ks {
		name, err := read(&ks[i])
		if err != nil {
			return nil, err
		}
		open, err := c.has(c.prepared(name))
		if err != nil {
			return nil, unusable("probe", name, err)
		}
		done, err := c.has(c.visible(name))
		if err != nil {
			return nil, unusable("probe", name, err)
		}
		p := sink.Probed{Status: sink.Gone, Detail: name}
		if p.Marker, err = c.newest(ks[i].Subtask); err != nil {
			return nil, err
		}
		switch {
		case done, p.Marker >= ks[i].Checkpoint: // a reader may have taken the older files away
			p.Status = sink.Committed
		case open:
			p.Status = sink.Open
		}
		out = append(out, p)
	}
	return out, nil
}

// Marker returns the newest committed checkpoint of a lane. A job that has published
// nothing refuses the rows of an earlier life of the same folder.
func (c *committer) Marker(_ context.Context, subtask int) (stream.CheckpointID, error) {
	if c.env.Fresh {
		lives, err := c.list(c.dir)
		if err != nil {
			return stream.NoCheckpoint, err
		}
		for _, l := range lives {
			rows, err := c.list(path.Join(c.dir, l))
			if err != nil || l == c.env.Lineage.String() || strings.HasPrefix(l, ".") || len(rows) == 0 {
				continue // not a folder, or nothing in it
			}
			return stream.NoCheckpoint, stream.Errorf(stream.RestoreRefused, "spool.foreign_lineage", "restore", c.dir, "there are rows of an earlier life of the job, lineage %s", l)
		}
	}
	return c.newest(subtask)
}

func (c *committer) newest(subtask int) (id stream.CheckpointID, err error) {
	names, err := c.list(path.Join(c.dir, c.env.Lineage.String()))
	for _, n := range names {
		if s, at, ok := parse(strings.TrimSuffix(n, ".jsonl")); ok && s == subtask {
			id = max(id, at)
		}
	}
	return id, err
}

func (c *committer) list(dir string) ([]string, error) {
	names, err := c.env.FS.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusable("list", dir, err)
	}
	return names, nil
}

// Commit renames. Done or done before is the same; neither file means that the rows are
// lost, unless a later commit of the lane proves that they were there.
func (c *committer) Commit(_ context.Context, p checkpoint.Permit, k checkpoint.Committable) (sink.Result, error) {
	if !p.Covers(&k) {
		return sink.Result{}, fmt.Errorf("the permit of %s does not cover %s", p.ID(), sink.Name(&k))
	}
	name, err := read(&k)
	if err != nil {
		return sink.Result{}, err
	}
	newest, err := c.newest(k.Subtask)
	if err != nil {
		return sink.Result{}, err
	}
	if open, err := c.has(c.prepared(name)); err == nil && open && newest > k.Checkpoint {
		return sink.Result{}, fmt.Errorf("%s is open behind %s, which is committed", sink.Name(&k), newest)
	}
	err = c.env.FS.Rename(c.prepared(name), c.visible(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.settled(name, newest, &k)
	case err != nil:
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	}
	return c.durable(sink.Done)
}

func (c *committer) settled(name string, newest stream.CheckpointID, k *checkpoint.Committable) (sink.Result, error) {
	done, err := c.has(c.visible(name))
	switch {
	case err != nil:
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	case done, newest >= k.Checkpoint:
		return c.durable(sink.Already)
	}
	return sink.Result{Outcome: sink.Lost, Detail: name + " is neither prepared nor committed"}, nil
}

// durable says so only once the new name survives a loss of power.
func (c *committer) durable(o sink.Outcome) (sink.Result, error) {
	if err := c.env.FS.SyncDir(path.Join(c.dir, c.env.Lineage.String())); err != nil {
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	}
	return sink.Result{Outcome: o}, nil
}

// Fence removes what the owners have prepared, less keep. An owner that was stopped and
// goes on can still write files; no checkpoint will ever list them, and the next fence
// removes them.
func (c *committer) Fence(_ context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	kept := map[string]bool{}
	for i := range keep {
		kept[string(keep[i].Payload)] = true
	}
	dir := path.Join(c.dir, ".prepared", c.env.Lineage.String())
	names, err := c.list(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		_, id, ok := parse(n)
		if !ok || kept[n] || !slices.Contains(owners, id.Attempt()) {
			continue
		}
		if err := c.env.FS.Remove(path.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unusable("fence", n, err)
		}
	}
	return nil
}

// Inspect lists what is prepared and not committed, of any life.
func (c *committer) Inspect(context.Context) (out []sink.InDoubt, err error) {
	lives, err := c.list(path.Join(c.dir, ".prepared"))
	if err != nil {
		return nil, err
	}
	for _, l := range lives {
		names, err := c.list(path.Join(c.dir, ".prepared", l))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if subtask, id, ok := parse(n); ok {
				out = append(out, sink.InDoubt{ID: path.Join(l, n), Attempt: id.Attempt(), Subtask: subtask, Checkpoint: id, State: "prepared"})
			}
		}
	}
	return out, nil
}
