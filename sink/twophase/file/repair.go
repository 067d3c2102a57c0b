package file

import (
	"context"
	"path"
	"strings"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

var _ sink.Repairer = (*Committer)(nil)

// IDOf names the directory of a committable's epoch, below the sink's own.
func (c *Committer) IDOf(cm *checkpoint.Committable) (string, error) {
	return path.Join(path.Base(c.home), preparedDir(cm.Checkpoint, cm.Subtask).String()), nil
}

// End removes an epoch's directory. Files are committed by what the checkpoint says of
// them only: their names for readers are nowhere else.
func (c *Committer) End(_ context.Context, id string, commit bool) error {
	if commit {
		return stream.Errorf(stream.BadConfig, "txn.no_force", "commit", id, "the files can get their names only from the checkpoint that lists them").
			WithFix("etl txn commit without --force, or etl run")
	}
	home, name := path.Split(path.Clean(id))
	d, ok := parseDir(name)
	if !ok {
		return stream.Errorf(stream.BadConfig, "txn.unknown", "abort", id, "that is no directory of an epoch")
	}
	if strings.HasPrefix(home, hidden+"/") { // Find has named it
		return c.endAt(path.Clean(home), d)
	}
	return c.endAt(path.Join(homeOf(c.env.Job, c.env.UID), home), d)
}

func (c *Committer) endAt(home string, d dirName) error {
	other := &Committer{cfg: c.cfg, env: c.env, fs: c.fs, home: home}
	if err := other.end(d); err != nil {
		return environment("abort", path.Join(home, d.String()), err)
	}
	if err := c.fs.SyncDir(home); err != nil {
		return environment("abort", home, err)
	}
	return nil
}

// Find lists what any job has open or prepared below the sink's path, by the names of
// the directories, which begin with .etl/, the job and the sink.
func (c *Committer) Find(ctx context.Context, prefix string) (out []sink.InDoubt, err error) {
	jobs, err := list(c.fs, hidden)
	if err != nil {
		return nil, environment("look for", prefix, err)
	}
	for _, job := range jobs {
		sinks, err := list(c.fs, path.Join(hidden, job))
		if err != nil {
			continue // a file of somebody else
		}
		for _, uid := range sinks {
			found, err := c.inspectAll(path.Join(hidden, job, uid))
			if err != nil {
				return nil, err
			}
			for _, x := range found {
				x.ID = path.Join(hidden, job, uid, x.ID)
				if strings.HasPrefix(x.ID, prefix) {
					out = append(out, x)
				}
			}
		}
	}
	return out, nil
}
