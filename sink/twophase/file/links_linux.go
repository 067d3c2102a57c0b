package file

import (
	"io/fs"
	"syscall"
)

// links returns how many names a file has, 0 when that is not known.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 0
}
