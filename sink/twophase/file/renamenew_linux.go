package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// RenameNew renames by renameat2 with RENAME_NOREPLACE, relative to directories that
// were opened below the root.
func (r rooted) RenameNew(oldName, newName string) error {
	from, err := r.root.Open(filepath.Dir(oldName))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := r.root.Open(filepath.Dir(newName))
	if err != nil {
		return err
	}
	defer to.Close()
	err = unix.Renameat2(int(from.Fd()), filepath.Base(oldName), int(to.Fd()), filepath.Base(newName), unix.RENAME_NOREPLACE)
	if slices.ContainsFunc(unsupported, func(e error) bool { return errors.Is(err, e) }) {
		r.two.Store(true)
		return linkAndRemove(r, oldName, newName)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

// unsupported are the answers of kernels and file systems that do not know the flag.
var unsupported = []error{unix.ENOSYS, unix.EINVAL, unix.ENOTSUP}
