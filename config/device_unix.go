//go:build unix

package config

import (
	"os"
	"path/filepath"
	"syscall"
)

// device looks at the nearest folder above path that exists.
func device(path string) (uint64, bool) {
	for {
		info, err := os.Stat(path)
		if err == nil {
			s, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return 0, false
			}
			return uint64(s.Dev), true
		}
		up := filepath.Dir(path)
		if up == path {
			return 0, false
		}
		path = up
	}
}
