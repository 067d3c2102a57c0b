package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/stream"
)

// maxGet is the size in bytes up to which an object is small.
const maxGet = 1 << 30

// missing turns "no such file" into the contract's word.
func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, checkpoint.ErrNotFound)
	}
	return err
}

// open opens an object's file, which is an ordinary one.
func (s *Store) open(ctx context.Context, name string) (stream.File, fs.FileInfo, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	path, err := s.path(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := s.world.FS.Stat(path)
	if err != nil {
		return nil, nil, missing(path, err)
	}
	if !fi.Mode().IsRegular() {
		return nil, nil, missing(path, fs.ErrNotExist)
	}
	h, err := s.world.FS.Open(path)
	return h, fi, missing(path, err)
}

// Get returns a small object, or checkpoint.ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	h, fi, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if fi.Size() > maxGet {
		return nil, fmt.Errorf("%s has %d bytes, too many for memory", name, fi.Size())
	}
	return io.ReadAll(h)
}

// Open reads size bytes at offset.
func (s *Store) Open(ctx context.Context, name string, offset, size int64) (io.ReadCloser, error) {
	h, fi, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || size < 0 || offset+size > fi.Size() {
		_ = h.Close()
		return nil, fmt.Errorf("%s: bytes %d to %d of %d: %w", name, offset, offset+size, fi.Size(), io.ErrUnexpectedEOF)
	}
	return &section{SectionReader: io.NewSectionReader(h, offset, size), Closer: h}, nil
}

type section struct {
	*io.SectionReader
	io.Closer
}

// Stat returns an object's size, or checkpoint.ErrNotFound.
func (s *Store) Stat(ctx context.Context, name string) (checkpoint.Info, error) {
	if ctx.Err() != nil {
		return checkpoint.Info{}, context.Cause(ctx)
	}
	path, err := s.path(name)
	if err != nil {
		return checkpoint.Info{}, err
	}
	fi, err := s.world.FS.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return checkpoint.Info{}, missing(path, err)
	}
	return checkpoint.Info{Name: name, Size: fi.Size()}, nil
}

// List returns the objects whose names begin with prefix, sorted by name.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Info, error) {
	dir := "" // the deepest one that holds them all
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		dir = prefix[:i]
		if err := checkpoint.CheckName(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", s.URL(), err)
		}
	}
	var out []checkpoint.Info
	if err := s.walk(ctx, dir, prefix, &out); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b checkpoint.Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (s *Store) walk(ctx context.Context, dir, prefix string, out *[]checkpoint.Info) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	names, err := s.world.FS.List(filepath.Join(s.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, base := range names {
		name := strings.TrimPrefix(dir+"/"+base, "/")
		if own(base) || !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name) {
			continue
		}
		switch fi, err := s.world.FS.Stat(filepath.Join(s.dir, filepath.FromSlash(name))); {
		case errors.Is(err, fs.ErrNotExist):
			continue // deleted meanwhile
		case err != nil:
			return err
		case fi.IsDir():
			if err := s.walk(ctx, name, prefix, out); err != nil {
				return err
			}
		case fi.Mode().IsRegular() && strings.HasPrefix(name, prefix):
			*out = append(*out, checkpoint.Info{Name: name, Size: fi.Size()})
		}
	}
	return nil
}
