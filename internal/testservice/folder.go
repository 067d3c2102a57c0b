package testservice

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// folderPrefix begins the names of all our temporary folders; the owner's pid follows.
const folderPrefix = "etl-test-"

// newFolder makes a temporary folder that the user uid can enter. It is not
// t.TempDir: that lies below a folder only its owner can enter, and its path is
// too long for a Unix socket (107 bytes).
func newFolder(name string, uid, gid int) (string, error) {
	sweepFolders()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-%s-", folderPrefix, os.Getpid(), name))
	if err != nil {
		return "", err
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return "", err
	}
	return dir, nil
}

// sweepFolders removes the folders of programs that were killed and could not do
// it themselves. A pid that was given out again only delays that.
func sweepFolders() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), folderPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && !exists(n) {
			_ = os.RemoveAll(dir)
		}
	}
}
