package file

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/stream"
)

// Fence removes what the owners have open or prepared, except keep (V6). What has an
// intent is committed and stays.
func (c *Committer) Fence(_ context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	kept := map[string]bool{}
	for i := range keep {
		kept[preparedDir(keep[i].Checkpoint, keep[i].Subtask).String()] = true
	}
	dirs, err := epochsIn(c.fs, c.home)
	if err != nil {
		return environment("fence", c.home, err)
	}
	for _, d := range dirs {
		if !slices.Contains(owners, d.attempt) || kept[d.String()] {
			continue
		}
		if err := c.end(d); err != nil {
			return environment("fence", path.Join(c.home, d.String()), err)
		}
	}
	if len(dirs) > 0 {
		if err := c.fs.SyncDir(c.home); err != nil {
			return environment("fence", c.home, err)
		}
	}
	fault.Point("file.fence.after")
	return nil
}

// end takes a directory's name away, then its files. In this order a process that was
// stopped in front of its intent finds no directory, and one that was quicker has left
// its intent in it: that directory gets its name back.
func (c *Committer) end(d dirName) error {
	name := path.Join(c.home, d.String())
	if ok, err := c.intentIn(name); ok || err != nil {
		return err
	}
	gone := d
	if gone.prefix == "" || gone.prefix == open {
		gone.prefix = dead + d.prefix
		err := c.fs.Rename(name, path.Join(c.home, gone.String()))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // somebody else does the same
		}
		if err != nil {
			return err
		}
	}
	fault.Point("file.fence.named")
	at := path.Join(c.home, gone.String())
	if ok, err := c.intentIn(at); ok || err != nil {
		if err == nil {
			err = c.fs.Rename(at, path.Join(c.home, preparedDir(d.checkpoint(), d.subtask).String()))
		}
		return err
	}
	return removeDir(c.fs, at)
}

func (c *Committer) intentIn(dir string) (bool, error) {
	if broken.Is(broken.FenceIgnoresIntent) {
		return false, nil
	}
	return exists(c.fs, path.Join(dir, intent))
}
