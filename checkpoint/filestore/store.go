package filestore

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"etl/checkpoint"
	"etl/stream"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	tmpMark  = ".tmp-"
	lockName = ".lock"
)

// Points are the fault points of this package, with the places of the protocol
// they stand for.
var Points = map[string]string{
	"storage.put.before_sync":    "K26, K27: an entry lies half written under a temporary name",
	"storage.put.before_link":    "K28: an entry is durable and has no name",
	"storage.put.linked":         "K29: an entry has its name, the directory is not synced",
	"storage.put.done":           "K30: an entry is durable, nobody was told",
	"storage.create.before_sync": "K10, K11, K13: an object lies half written under a temporary name",
	"storage.create.linked":      "K12: an object has its name and is in no metadata",
	"storage.delete.removed":     "K31, K32: a name is gone, the directory is not synced",
}

// Store is a checkpoint.Storage in a directory. Its methods are safe from any
// goroutine.
type Store struct {
	world stream.World
	dir   string
	sys   system

	tmps     atomic.Int64 // counts temporary names
	tmpNonce string

	preparing sync.Mutex
	prepared  bool
	known     map[string]bool // directories that exist durably
	notes     sync.Mutex
}

var _ checkpoint.Storage = (*Store)(nil)

// Open returns the store in dir, which is made at the first write. Opening
// changes nothing, so that commands which only look can use it.
func Open(w stream.World, dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, stream.Errorf(stream.BadConfig, "storage.path", "open storage", dir, "%w", err)
	}
	raw := make([]byte, 8)
	if _, err := io.ReadFull(w.Entropy, raw); err != nil {
		return nil, fmt.Errorf("draw nonce: %w", err)
	}
	s := &Store{world: w, dir: abs, sys: systemOf(w.FS), tmpNonce: hex.EncodeToString(raw), known: map[string]bool{}}
	return s, s.checkRoot()
}

// URL names the storage in messages.
func (s *Store) URL() string { return "file:" + s.dir }

// path returns the file of an object.
func (s *Store) path(name string) (string, error) {
	if err := checkpoint.CheckName(name); err != nil {
		return "", fmt.Errorf("%s: %w", s.URL(), err)
	}
	return filepath.Join(s.dir, filepath.FromSlash(name)), nil
}

// tmp returns an unused temporary name beside path.
func (s *Store) tmp(path string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%s-%d", tmpMark, s.tmpNonce, s.tmps.Add(1)))
}

// own reports whether a file is the store's own business and no object.
func own(base string) bool { return strings.HasPrefix(base, ".") }

// begin does what every writing call begins with.
func (s *Store) begin(ctx context.Context, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	path, err := s.path(name)
	if err != nil {
		return "", err
	}
	if err := s.prepare(); err != nil {
		return "", err
	}
	return path, s.ensureDir(filepath.Dir(path))
}
