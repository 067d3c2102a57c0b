package file

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// system is the ground of this machine.
var system = ground{
	writable: func(dir string) error {
		if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return &os.PathError{Op: "write to", Path: dir, Err: err}
		}
		return nil
	},
	device: func(dir string) (uint64, bool) {
		info, err := os.Stat(dir)
		if err != nil {
			return 0, false
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return s.Dev, true
	},
	room: func(dir string) (bytes, files uint64, ok bool) {
		var s unix.Statfs_t
		if unix.Statfs(dir, &s) != nil {
			return 0, 0, false
		}
		if s.Files == 0 { // a file system that does not count them
			s.Ffree = 1
		}
		return s.Bavail * uint64(s.Bsize), s.Ffree, true
	},
}
