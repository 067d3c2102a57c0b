package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"etl/stream"
)

// checkRoot refuses a root that exists and is not the job's alone.
func (s *Store) checkRoot() error {
	fi, err := s.world.FS.Stat(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return s.unusable("%w", err)
	case !fi.IsDir():
		return s.unusable("it is not a directory")
	case fi.Mode().Perm()&0o022 != 0:
		return s.unusable("its mode is %v: others may write to it", fi.Mode().Perm()).WithFix("chmod go-w %s", s.dir)
	}
	if uid, me, ok := owner(fi); ok && uid != me {
		return s.unusable("it belongs to user %d, this process runs as %d", uid, me)
	}
	return nil
}

func (s *Store) unusable(format string, args ...any) *stream.Error {
	return stream.Errorf(stream.Environment, "storage.unusable", "open storage", s.dir, format, args...)
}

// prepare makes the root and probes it, once. A failure is tried again by the
// next call: the disk may have been full.
func (s *Store) prepare() error {
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared {
		return nil
	}
	if err := s.makeDir(s.dir); err != nil {
		return s.unusable("%w", err)
	}
	if err := s.probe(); err != nil {
		return err
	}
	s.prepared = true
	return nil
}

// probe finds out whether link and the sync of a directory work here; without
// them no name can be decided, and none would survive a power cut.
func (s *Store) probe() error {
	f := s.world.FS
	a := s.tmp(filepath.Join(s.dir, "probe"))
	b := a + "-linked"
	h, err := f.Create(a, fileMode)
	if err != nil {
		return s.unusable("a file cannot be created in it: %w", err)
	}
	_ = h.Close()
	defer func() { _, _ = f.Remove(a), f.Remove(b) }()
	if err := f.Link(a, b); err != nil {
		return s.unusable("its file system has no hard links (link: %w)", err).
			WithFix("keep checkpoints on a local file system such as ext4 or xfs, or in an object store")
	}
	if err := f.Link(a, b); !errors.Is(err, fs.ErrExist) {
		return s.unusable("link did not refuse a name that was taken (%v)", err)
	}
	if err := f.SyncDir(s.dir); err != nil {
		return s.unusable("its file system cannot sync a directory (fsync: %w)", err).
			WithFix("keep checkpoints on a local file system such as ext4 or xfs, or in an object store")
	}
	return nil
}

// ensureDir makes a directory below the root durable before anything is put
// into it.
func (s *Store) ensureDir(dir string) error {
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.known[dir] || dir == s.dir {
		return nil
	}
	if err := s.makeDir(dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	s.known[dir] = true
	return nil
}

// makeDir creates dir and syncs every directory that a new name may be in.
func (s *Store) makeDir(dir string) error {
	_, err := s.world.FS.Stat(dir)
	existed, first := err == nil, dir // the topmost directory that may lack durability
	for {
		up := filepath.Dir(first)
		if _, err := s.world.FS.Stat(up); err == nil || up == first {
			break
		}
		first = up
	}
	if err := s.world.FS.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for d := dir; filepath.Dir(d) != d; d = filepath.Dir(d) {
		err := s.world.FS.SyncDir(filepath.Dir(d))
		if err != nil && !(existed && errors.Is(err, fs.ErrPermission)) { // somebody else's, and not new
			return notDurable("sync directory", filepath.Dir(d), err)
		}
		if d == first {
			break
		}
	}
	return nil
}

// sweep removes what writers that died left behind. It is done by whoever gets
// the lock: a writer that is taken over by force merely fails its write.
func (s *Store) sweep(dir string) error {
	names, err := s.world.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch fi, err := s.world.FS.Stat(path); {
		case err != nil:
			continue // gone meanwhile
		case fi.IsDir():
			err = s.sweep(path)
			if err != nil {
				return err
			}
		case strings.HasPrefix(name, tmpMark):
			_ = s.world.FS.Remove(path)
		}
	}
	return nil
}
