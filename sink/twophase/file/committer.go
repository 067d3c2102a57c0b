package file

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// Committer is phase two of the sink.
type Committer struct {
	cfg  Config
	env  sink.CommitEnv
	fs   stream.FS
	home string // of the lineage

	mu      sync.Mutex
	newest  map[int]stream.CheckpointID // committed here, by subtask
	durable map[string]bool             // directories of parts that survive a loss of power
	tried   bool                        // how the file system renames
}

// NewCommitter returns a committer of a sink. Config need not have its defaults.
func NewCommitter(cfg Config) *Committer {
	return &Committer{cfg: cfg.WithDefaults(), newest: map[int]stream.CheckpointID{}, durable: map[string]bool{}}
}

var _ sink.Committer = (*Committer)(nil)

// Open opens the sink's path. It may be that of a process that only looks.
func (c *Committer) Open(_ context.Context, env sink.CommitEnv) (err error) {
	c.env = env
	c.home = path.Join(homeOf(env.Job, env.UID), env.Lineage.String())
	if c.fs, err = confine(env.FS, c.cfg.Path); err != nil {
		return environment("open committer of "+string(env.UID), c.cfg.Path, err)
	}
	return nil
}

// Probe looks at committables without changing anything (V4).
func (c *Committer) Probe(_ context.Context, cs []checkpoint.Committable, _ time.Time) ([]sink.Probed, error) {
	out := make([]sink.Probed, len(cs))
	for i := range cs {
		p, err := decode(&cs[i])
		if err != nil {
			return nil, err
		}
		if out[i], err = c.look(p, &cs[i]); err != nil {
			return nil, environment("probe", cs[i].Lane().String(), err)
		}
	}
	fault.Point("file.recover.probed")
	return out, nil
}

// dirOf returns the directory of a committable's epoch.
func (c *Committer) dirOf(cm *checkpoint.Committable) string {
	return path.Join(c.home, preparedDir(cm.Checkpoint, cm.Subtask).String())
}

// look tells the status of a committable. An intent decides; without one all its files
// must be there as they were written.
func (c *Committer) look(p *payload, cm *checkpoint.Committable) (s sink.Probed, err error) {
	dir := c.dirOf(cm)
	if s.Marker, err = c.marker(cm.Subtask); err != nil {
		return s, err
	}
	decided, err := exists(c.fs, path.Join(dir, intent))
	if err != nil {
		return s, err
	}
	missing, err := c.missing(p, dir)
	switch {
	case err != nil:
		return s, err
	case decided:
		s.Status, s.Detail = sink.Committed, fmt.Sprintf("%s has an intent; %d of %d files have moved", dir, missing.gone, len(p.Files))
	case missing.first == "":
		s.Status, s.Detail = sink.Open, fmt.Sprintf("%s has all %d files", dir, len(p.Files))
	case s.Marker >= cm.Checkpoint:
		s.Status, s.Detail = sink.Committed, fmt.Sprintf("its lane has committed %s since", s.Marker)
	default:
		s.Status, s.Detail = sink.Gone, missing.first
	}
	return s, nil
}

// absence says which pending files of a committable are not as they were written.
type absence struct {
	first string // what is wrong with the first one, "" for nothing
	gone  int
}

func (c *Committer) missing(p *payload, dir string) (a absence, err error) {
	for _, f := range p.Files {
		name := path.Join(dir, f.Pending)
		ok, err := exists(c.fs, name)
		if err != nil {
			return a, err
		}
		why := ""
		if !ok {
			a.gone++
			why = "neither an intent nor " + name + " is there"
		} else if info, err := c.fs.Stat(name); err == nil && info.Size() != f.Size {
			why = fmt.Sprintf("%s has %d bytes, and %d were written", name, info.Size(), f.Size)
		}
		if a.first == "" {
			a.first = why
		}
	}
	return a, nil
}

func (c *Committer) marker(subtask int) (stream.CheckpointID, error) {
	dirs, err := committed(c.fs, c.home, subtask)
	if err != nil || len(dirs) == 0 {
		return stream.NoCheckpoint, err
	}
	return dirs[0].checkpoint(), nil
}

// Marker returns the newest committed checkpoint of a lane: the newest intent. A job
// that has published nothing refuses what an earlier life of the same name committed
// (I12).
func (c *Committer) Marker(_ context.Context, subtask int) (stream.CheckpointID, error) {
	if c.env.Fresh && !c.cfg.AcceptForeign {
		if err := c.foreign(); err != nil {
			return stream.NoCheckpoint, err
		}
	}
	id, err := c.marker(subtask)
	if err != nil {
		return id, environment("read marker", c.home, err)
	}
	return id, nil
}

// foreign refuses the intents of another lineage.
func (c *Committer) foreign() error {
	dir := homeOf(c.env.Job, c.env.UID)
	names, err := list(c.fs, dir)
	if err != nil {
		return environment("read marker", dir, err)
	}
	for _, name := range names {
		var l stream.Lineage
		if l.UnmarshalText([]byte(name)) != nil || l.String() != name || l == c.env.Lineage {
			continue
		}
		home := path.Join(dir, name)
		epochs, err := epochsIn(c.fs, home)
		if err != nil {
			return environment("read marker", home, err)
		}
		for _, d := range epochs {
			if ok, err := exists(c.fs, path.Join(home, d.String(), intent)); err != nil || ok {
				return stream.Errorf(stream.RestoreRefused, "file.foreign_lineage", "restore", c.cfg.Path,
					"an earlier life of this job (lineage %s) has committed files here, checkpoint %s of subtask %d among them, and the storage has none of its checkpoints", name, d.checkpoint(), d.subtask).
					WithFix("point storage at the old checkpoints; or, to begin anew beside the old files, --accept-foreign-lineage")
			}
		}
	}
	return nil
}

// Close gives handles back.
func (c *Committer) Close() error { return closeFS(c.fs) }
