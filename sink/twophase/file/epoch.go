package file

import (
	"path"
	"time"

	"etl/internal/fault"
	"etl/stream"
)

// maxUnsynced is how many files of an epoch may be complete and not synced: their
// handles stay open, for a failed write-back is reported to them alone.
const maxUnsynced = 16

// epoch is the rows between two barriers. Until it is sealed the task goroutine owns it,
// afterwards its Finish does.
type epoch struct {
	w     *Writer
	dir   string // where its files lie, open-...
	rows  int64
	open  map[string]*openPart // by partition
	last  *openPart            // of them, the one that took the last row
	ended []*openPart          // complete, in the order they were begun
	dirty []*openPart          // of them, those that are not synced
	seq   int
}

// newEpoch makes the directory of an epoch.
func (w *Writer) newEpoch() (*epoch, error) {
	w.serial++
	name := dirName{prefix: open, attempt: w.env.Attempt, subtask: w.env.Subtask, n: w.serial}
	e := &epoch{w: w, dir: path.Join(w.home, name.String()), open: map[string]*openPart{}}
	if err := w.fs.MkdirAll(e.dir, dirMode); err != nil {
		return nil, restarts("begin epoch", e.dir, err)
	}
	fault.Point("file.begun")
	return e, nil
}

// write adds a row to the file of its partition.
func (e *epoch) write(r *Row, now time.Time) error {
	p := e.last
	if p == nil || p.place != string(r.place) {
		if p = e.open[string(r.place)]; p == nil {
			var err error
			if p, err = e.begin(string(r.place), now); err != nil {
				return err
			}
		}
		e.last = p
	}
	if err := p.write(r); err != nil {
		return restarts("write", p.Pending, err)
	}
	e.rows++
	p.used = e.rows
	if p.bytes() >= e.w.cfg.RollSize {
		return e.end(p)
	}
	return nil
}

// begin makes the file of a partition, ending another one when too many are open.
func (e *epoch) begin(place string, now time.Time) (*openPart, error) {
	if len(e.open) >= e.w.cfg.MaxOpen {
		if err := e.end(e.idlest()); err != nil {
			return nil, err
		}
	}
	e.seq++
	p := &openPart{part: part{Pending: pendingName(e.seq)}, seq: e.seq, place: place, begun: now}
	f, err := e.w.fs.Create(path.Join(e.dir, p.Pending), fileMode)
	if err != nil {
		return nil, restarts("begin file", e.dir, err)
	}
	p.file, p.out = f, &output{f: f, buf: make([]byte, 0, bufferSize)}
	if p.body, err = e.w.cfg.newBody(p.out); err != nil {
		return nil, restarts("begin file", e.dir, err)
	}
	e.open[place] = p
	return p, nil
}

// idlest returns the open file that was used longest ago.
func (e *epoch) idlest() (p *openPart) {
	for _, q := range e.open {
		if p == nil || q.used < p.used {
			p = q
		}
	}
	return p
}

// end completes a file. Its partition gets another one with the next row.
func (e *epoch) end(p *openPart) error {
	delete(e.open, p.place)
	if e.last == p {
		e.last = nil
	}
	if err := p.end(); err != nil {
		return restarts("end file", p.Pending, err)
	}
	e.ended, e.dirty = append(e.ended, p), append(e.dirty, p)
	if len(e.dirty) <= maxUnsynced {
		return nil
	}
	return e.sync()
}

// tidy ends files that are old, and takes memory back.
func (e *epoch) tidy(now time.Time) error {
	held := int64(0)
	for _, p := range e.open {
		if age := e.w.cfg.RollAge; age > 0 && now.Sub(p.begun) >= age {
			if err := e.end(p); err != nil {
				return err
			}
			continue
		}
		held += p.held
	}
	if held < e.w.cfg.Memory {
		return nil
	}
	for _, p := range e.open {
		if err := p.body.flush(); err != nil {
			return restarts("write", p.Pending, err)
		}
		p.held = 0
	}
	return nil
}

// sync makes what is complete durable. A sync that failed is not tried again (I16).
func (e *epoch) sync() error {
	dirty := e.dirty
	e.dirty = nil
	for i, p := range dirty {
		if err := p.sync(); err != nil {
			for _, rest := range dirty[i+1:] {
				_ = rest.file.Close()
			}
			return restarts("sync", p.Pending, err)
		}
	}
	return nil
}

// abandon closes what is open; the files stay for the fence.
func (e *epoch) abandon() {
	for _, p := range e.open {
		_ = p.file.Close()
	}
	for _, p := range e.dirty {
		_ = p.file.Close()
	}
	e.open, e.dirty = nil, nil
}

// parts returns the files as the committable of a checkpoint lists them.
func (e *epoch) parts(id stream.CheckpointID) (out []part) {
	for _, p := range e.ended {
		f := p.part
		f.Final = path.Join(p.place, partName(e.w.env.Job, e.w.env.UID, e.w.env.Lineage, id, e.w.env.Subtask, len(out)+1, e.w.cfg.extension()))
		out = append(out, f)
	}
	return out
}
