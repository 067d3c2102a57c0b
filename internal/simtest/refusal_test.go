package simtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"etl/pipeline"
	"etl/stream"
)

// wrong is what is wrong with a start that must be refused.
type wrong string

const (
	olderCheckpoint wrong = "--from an older checkpoint"
	wrongGraph      wrong = "a renamed operator"
	missingObject   wrong = "a missing object"
	otherStorage    wrong = "an empty storage"
)

// refuse starts the job in a way that must be refused: with an error that says so,
// and without a change, so that a normal start is exact afterwards (which the rest
// of the seed shows). Where there is nothing to refuse yet, nothing is done.
func (s *sim) refuse(p *process, w wrong) error {
	defer p.kill(false)
	o, graph, undo := s.misstart(p, w)
	if graph == nil {
		return nil
	}
	defer undo()
	j, err := pipeline.NewJob(graph, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*time.Minute, errStuck)
	defer cancel()
	err = s.await(p, j, ctx)
	switch {
	case stream.ClassOf(err) == stream.RestoreRefused:
		s.cov.add("refused/" + string(w))
	case stream.ClassOf(err) == stream.DataLoss: // seen first; the next start says it again
	case errors.Is(err, errStuck):
		s.fail("a start with %s was not refused", w)
	default:
		s.fail("a start with %s ended with %v (%s)", w, err, stream.ClassOf(err))
	}
	return err
}

// misstart returns options and graph of a start that must be refused, graph nil
// when there is none.
func (s *sim) misstart(p *process, w wrong) (o pipeline.Options, graph *pipeline.Graph, undo func()) {
	dir := dataDir
	if w == otherStorage {
		dir = fmt.Sprint("/data/other", s.processes)
	}
	o, err := s.options(p, dir)
	if err != nil {
		s.fail("open storage: %v", err)
		return o, nil, nil
	}
	undo = func() {}
	published, _ := publishedIn(s.readLog())
	if len(published) < 2 || len(published[len(published)-1].Committables) == 0 {
		return o, nil, undo
	}
	counter := stream.UID("count")
	newest := published[len(published)-1]
	switch w {
	case olderCheckpoint:
		if s.plan.jumps || !newest.goesBeyond(published[0].ID) {
			return o, nil, nil // nothing may be left that tells
		}
		id, err := stream.ParseCheckpointID(published[0].ID)
		if err != nil {
			s.fail("%v", err)
		}
		o.Restore.From = id
	case wrongGraph:
		counter = "tally"
	case missingObject:
		if undo = s.hide(newest); undo == nil {
			return o, nil, nil
		}
	case otherStorage:
		if !s.someMarker() {
			return o, nil, nil
		}
	}
	if !s.plan.shape.keyed() && (w == wrongGraph || w == missingObject) {
		return o, nil, undo
	}
	return o, s.graph(counter), undo
}

// goesBeyond reports whether m lists a transaction of a checkpoint after id.
func (m *logCheckpoint) goesBeyond(id string) bool {
	for i := range m.Committables {
		if number(m.Committables[i].Checkpoint) > number(id) {
			return true
		}
	}
	return false
}

// someMarker reports whether a row is visible, so that there is a marker.
func (s *sim) someMarker() bool { return s.outlets[0].seenAny() && !s.plan.jumps }

// hide takes away an object that a checkpoint needs, and returns what puts it back.
func (s *sim) hide(m *logCheckpoint) (undo func()) {
	for _, t := range m.Tasks {
		for _, h := range t.Handles {
			if h.Object == "" {
				continue
			}
			name := dataDir + "/" + h.Object
			f, err := s.disk.Open(name)
			if err != nil {
				s.fail("object %s: %v", name, err)
				return nil
			}
			b, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt32))
			if err != nil || s.disk.Remove(name) != nil {
				s.fail("object %s: %v", name, err)
				return nil
			}
			return func() { s.putBack(name, b) }
		}
	}
	return nil
}

func (s *sim) putBack(name string, b []byte) {
	f, err := s.disk.Create(name, 0o600)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close(), s.disk.SyncDir(dataDir+"/objects"))
	}
	if err != nil {
		s.fail("put back %s: %v", name, err)
	}
}
