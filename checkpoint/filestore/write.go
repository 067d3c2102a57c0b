package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/stream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// PutIfAbsent creates an object, or fails with checkpoint.ErrExists.
func (s *Store) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	path, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	return s.put(path, "storage.put", bytes.NewReader(data))
}

// Create stores a new object of any size.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (size int64, crc uint32, err error) {
	path, err := s.begin(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	m := &meter{r: r, ctx: ctx, crc: crc32.New(castagnoli)}
	if err := s.put(path, "storage.create", m); err != nil {
		return 0, 0, err
	}
	return m.n, m.crc.Sum32(), nil
}

// put is the one way an object comes to be; the package comment has the order.
func (s *Store) put(path, point string, r io.Reader) error {
	f, tmp := s.world.FS, s.tmp(path)
	if err := s.stage(tmp, point, r); err != nil {
		_ = f.Remove(tmp)
		return err
	}
	fault.Point(point + ".before_link")
	linked := f.Link(tmp, path)
	if err := f.Remove(tmp); linked == nil && err != nil {
		s.world.Log.Warn("a temporary file stays until the next start", "file", tmp, "error", err)
	}
	switch {
	case errors.Is(linked, fs.ErrExist):
		return fmt.Errorf("%s: %w", path, checkpoint.ErrExists)
	case linked != nil:
		return fmt.Errorf("name %s: %w", path, linked)
	}
	fault.Point(point + ".linked")
	if err := f.SyncDir(filepath.Dir(path)); err != nil {
		return notDurable("sync directory of", path, err)
	}
	fault.Point(point + ".done")
	return nil
}

// stage writes a temporary file and syncs it.
func (s *Store) stage(tmp, point string, r io.Reader) error {
	h, err := s.world.FS.Create(tmp, fileMode)
	if err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	_, err = io.Copy(h, r)
	if err == nil {
		fault.Point(point + ".before_sync")
		if err = h.Sync(); err != nil {
			err = notDurable("sync", tmp, err)
		}
	}
	if cerr := h.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close %s: %w", tmp, cerr)
	}
	return err
}

// notDurable is a failed sync: fatal to the attempt, and never tried again (I16).
func notDurable(op, path string, err error) error {
	return stream.Errorf(stream.Restart, "storage.fsync_failed", op, path, "%w (%w)", checkpoint.ErrNotDurable, err).
		WithFix("look for disk errors in the kernel's log before trusting this disk again")
}

// Delete removes an object; removing what is not there is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	path, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	if err := s.world.FS.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", path, err)
	}
	fault.Point("storage.delete.removed")
	// What is deleted next may lean on this name being gone for good.
	if err := s.world.FS.SyncDir(filepath.Dir(path)); err != nil {
		return notDurable("sync directory of", path, err)
	}
	return nil
}

// meter counts and sums what passes, and stops when nobody waits any more.
type meter struct {
	r   io.Reader
	ctx context.Context
	n   int64
	crc hash.Hash32
}

func (m *meter) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.r.Read(p)
	m.n += int64(n)
	_, _ = m.crc.Write(p[:n])
	return n, err
}
