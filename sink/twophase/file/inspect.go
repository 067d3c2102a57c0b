package file

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"etl/sink"
	"etl/stream"
)

// Inspect lists what is in doubt under this job and sink, of any lineage, read-only:
// directories of epochs that are open or prepared, and intents with files left to move.
func (c *Committer) Inspect(context.Context) ([]sink.InDoubt, error) {
	return c.inspectAll(homeOf(c.env.Job, c.env.UID))
}

// inspectAll does so for the sink whose home dir is.
func (c *Committer) inspectAll(dir string) ([]sink.InDoubt, error) {
	lineages, err := list(c.fs, dir)
	if err != nil {
		return nil, environment("inspect", dir, err)
	}
	var out []sink.InDoubt
	for _, l := range lineages {
		epochs, err := epochsIn(c.fs, path.Join(dir, l))
		if err != nil {
			continue // a file, or gone since
		}
		for _, d := range epochs {
			doubt, ok, err := c.inspect(path.Join(dir, l), l, d)
			if err != nil {
				return nil, environment("inspect", dir, err)
			}
			if ok {
				out = append(out, doubt)
			}
		}
	}
	slices.SortFunc(out, func(a, b sink.InDoubt) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Subtask, b.Subtask), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

func (c *Committer) inspect(home, lineage string, d dirName) (sink.InDoubt, bool, error) {
	at := path.Join(home, d.String())
	names, err := list(c.fs, at)
	if err != nil {
		return sink.InDoubt{}, false, err
	}
	files := 0
	for _, n := range names {
		if strings.HasSuffix(n, ".pending") {
			files++
		}
	}
	x := sink.InDoubt{ID: lineage + "/" + d.String(), Attempt: d.attempt, Subtask: d.subtask, Checkpoint: d.checkpoint(), State: "prepared"}
	switch {
	case slices.Contains(names, intent):
		x.State = "committing"
	case strings.HasSuffix(d.prefix, open):
		x.State, x.Checkpoint = "open", stream.NoCheckpoint
	}
	if strings.HasPrefix(d.prefix, dead) {
		x.State = "fenced"
	}
	if info, err := c.fs.Stat(at); err == nil && !info.ModTime().IsZero() {
		x.Age = c.env.Clock.Now().Sub(info.ModTime()).Round(time.Second)
	}
	x.Detail = fmt.Sprintf("%d pending files below %s", files, c.cfg.Path)
	return x, files > 0 || x.State != "committing", nil
}
