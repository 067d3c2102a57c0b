package file

import (
	"cmp"
	"context"
	"path"
	"slices"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// pending is a sealed epoch on its way to a committable; its epoch is nil when it has no
// rows.
type pending struct {
	w  *Writer
	e  *epoch
	id stream.CheckpointID
}

// Finish completes the files and makes them durable, then their directory under the name
// of the checkpoint. An error ends the attempt (I8).
func (p *pending) Finish(context.Context, state.Uploader) (sink.Prepared, error) {
	if err := p.w.prune(); err != nil {
		return sink.Prepared{}, err
	}
	if p.e == nil {
		return sink.Prepared{}, nil
	}
	if err := p.e.prepare(p.id); err != nil {
		p.e.abandon()
		return sink.Prepared{}, err
	}
	c := checkpoint.Committable{Sink: p.w.env.UID, Subtask: p.w.env.Subtask, Checkpoint: p.id, Attempt: p.w.env.Attempt, Kind: Kind, Version: Version, Rows: p.e.rows}
	var err error
	if c.Payload, err = (&payload{Files: p.e.parts(p.id)}).encode(); err != nil {
		return sink.Prepared{}, err
	}
	fault.Point("file.prepared")
	return sink.Prepared{Committables: []checkpoint.Committable{c}}, nil
}

func (e *epoch) prepare(id stream.CheckpointID) error {
	left := make([]*openPart, 0, len(e.open))
	for _, p := range e.open {
		left = append(left, p)
	}
	slices.SortFunc(left, func(a, b *openPart) int { return cmp.Compare(a.seq, b.seq) })
	for _, p := range left {
		if err := e.end(p); err != nil {
			return err
		}
	}
	slices.SortFunc(e.ended, func(a, b *openPart) int { return cmp.Compare(a.seq, b.seq) })
	fault.Point("file.closed")
	if !broken.Is(broken.PartNotSynced) {
		if err := e.sync(); err != nil {
			return err
		}
	}
	return e.name(id)
}

// name gives the directory the name of its checkpoint.
func (e *epoch) name(id stream.CheckpointID) error {
	fs, to := e.w.fs, path.Join(e.w.home, preparedDir(id, e.w.env.Subtask).String())
	if err := fs.SyncDir(e.dir); err != nil {
		return restarts("sync", e.dir, err)
	}
	fault.Point("file.prepare.synced")
	// A directory that is gone was fenced: this attempt is over.
	if err := fs.Rename(e.dir, to); err != nil {
		return restarts("prepare", e.dir, err)
	}
	fault.Point("file.prepare.renamed")
	if err := fs.SyncDir(e.w.home); err != nil {
		return restarts("sync", e.w.home, err)
	}
	return nil
}
