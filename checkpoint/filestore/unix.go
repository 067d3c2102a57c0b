//go:build unix

package filestore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"etl/stream"
)

// unixSystem is the operating system itself, for stream.SystemFS.
type unixSystem struct{}

// maxNote is more than a Holder ever takes, in bytes.
const maxNote = 64 << 10

// TryLock uses flock(2): it survives a stopped process and ends with a dead one,
// and nothing that merely reads or copies the file disturbs it.
//
// A lock cannot be taken from its holder, so taking over unlinks the file and
// locks a new one: the old holder keeps a lock that nobody asks for any more.
func (unixSystem) TryLock(name string, note []byte, takeOver bool) (func() error, []byte, error) {
	for {
		h, err := openLock(name)
		if err != nil {
			return nil, nil, err
		}
		err = unix.Flock(int(h.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK) && takeOver:
			_ = h.Close()
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
		case errors.Is(err, unix.EWOULDBLOCK):
			held, err := io.ReadAll(io.LimitReader(h, maxNote))
			return nil, held, errors.Join(err, h.Close())
		case err != nil:
			return nil, nil, errors.Join(err, h.Close())
		case !sameFile(h, name):
			_ = h.Close() // it was unlinked between opening and locking
		default:
			return h.Close, nil, describe(h, note)
		}
	}
}

// openLock never follows a link, and never waits for a peer of a pipe.
func openLock(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func sameFile(h *os.File, name string) bool {
	a, errA := h.Stat()
	b, errB := os.Lstat(name)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// describe writes the holder into the file; the lock holds without it.
func describe(h *os.File, note []byte) error {
	if err := h.Truncate(0); err != nil {
		return errors.Join(err, h.Close())
	}
	if _, err := h.WriteAt(note, 0); err != nil {
		return errors.Join(err, h.Close())
	}
	return nil
}

// Append opens a file for writing at its end.
func (unixSystem) Append(name string, perm fs.FileMode) (stream.File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, perm)
}

// owner returns who owns a file and who this process is.
func owner(fi fs.FileInfo) (uid, me int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), os.Geteuid(), true
}
