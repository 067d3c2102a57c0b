package filestore

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"

	"etl/checkpoint"
	"etl/stream"
)

// system is what the store needs of an operating system beyond stream.FS. A
// stream.FS that has the methods is asked itself.
type system interface {
	// TryLock takes the advisory lock on a file and writes note into it, or
	// returns what the holder wrote. It ends with the process at the latest.
	TryLock(name string, note []byte, takeOver bool) (unlock func() error, holder []byte, err error)
	// Append opens a file for writing at its end, and makes it if there is none.
	Append(name string, perm fs.FileMode) (stream.File, error)
}

func systemOf(f stream.FS) system {
	if s, ok := f.(system); ok {
		return s
	}
	return unixSystem{}
}

// Lock takes the advisory lock of the job and tidies up behind writers that died.
func (s *Store) Lock(ctx context.Context, me checkpoint.Holder, takeOver bool) (func() error, *checkpoint.Holder, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err := s.prepare(); err != nil {
		return nil, nil, err
	}
	note, err := json.Marshal(me)
	if err != nil {
		return nil, nil, fmt.Errorf("describe the holder: %w", err)
	}
	unlock, held, err := s.sys.TryLock(filepath.Join(s.dir, lockName), note, takeOver)
	switch {
	case err != nil:
		return nil, nil, s.unusable("lock: %w", err)
	case unlock == nil:
		h := &checkpoint.Holder{} // a holder that has not described itself yet has no name
		_ = json.Unmarshal(held, h)
		return nil, h, nil
	}
	if err := s.sweep(s.dir); err != nil {
		s.world.Log.Warn("old temporary files could not be removed", "storage", s.URL(), "error", err)
	}
	return unlock, nil, nil
}

// Note adds a line to a journal.
func (s *Store) Note(ctx context.Context, name string, line []byte) error {
	path, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	s.notes.Lock()
	defer s.notes.Unlock()
	if fi, err := s.world.FS.Stat(path); err == nil && fi.Size() >= checkpoint.JournalLimit {
		if err := s.world.FS.Rename(path, path+".1"); err != nil {
			return fmt.Errorf("start %s anew: %w", path, err)
		}
	}
	h, err := s.sys.Append(path, fileMode)
	if err != nil {
		return fmt.Errorf("append to %s: %w", path, err)
	}
	_, err = h.Write(append(line[:len(line):len(line)], '\n'))
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	return err
}
