package stream

import (
	"context"
	"crypto/rand"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sort"
	"time"
)

// SystemWorld is the real outside: the system's clock, file system, network and
// entropy.
func SystemWorld(log *slog.Logger) World {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return World{Clock: SystemClock{}, FS: SystemFS{}, Dial: (&net.Dialer{}).DialContext, Entropy: rand.Reader, Log: log}
}

// SystemClock is the system's clock.
type SystemClock struct{}

// Now returns the time.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits for d or until ctx ends.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ticker ticks every d.
func (SystemClock) Ticker(d time.Duration) Ticker { return systemTicker{time.NewTicker(d)} }

type systemTicker struct{ *time.Ticker }

func (t systemTicker) C() <-chan time.Time { return t.Ticker.C }

// SystemFS is the system's file system.
type SystemFS struct{}

// MkdirAll creates dir and its parents.
func (SystemFS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }

// Create makes a new file.
func (SystemFS) Create(name string, perm fs.FileMode) (File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// Open opens a file for reading.
func (SystemFS) Open(name string) (File, error) { return os.Open(name) }

// Link gives a file a second name.
func (SystemFS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

// Rename renames a file, replacing newName.
func (SystemFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove removes a file or an empty directory.
func (SystemFS) Remove(name string) error { return os.Remove(name) }

// List returns the names in dir, sorted.
func (SystemFS) List(dir string) ([]string, error) {
	d, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(d))
	for i, e := range d {
		names[i] = e.Name()
	}
	sort.Strings(names)
	return names, nil
}

// Stat describes a file.
func (SystemFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir makes the names in dir durable.
func (SystemFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
