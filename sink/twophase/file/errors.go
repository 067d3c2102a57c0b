package file

import (
	"errors"
	"io/fs"
	"syscall"

	"etl/stream"
)

// restarts wraps a failure after which the attempt ends, and the next one writes the
// rows anew: restarting is exact, because what was not finished is removed.
func restarts(op, subject string, err error) error {
	if missingRight(err) {
		return environment(op, subject, err)
	}
	e := stream.Errorf(stream.Restart, "file.write", op, subject, "%w", err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return e.WithFix("make room on the disk")
	}
	return e
}

func missingRight(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// environment wraps a failure that another attempt would meet, too.
func environment(op, subject string, err error) error {
	return stream.Errorf(stream.Environment, "file.unusable", op, subject, "%w", err).
		WithFix("the job's user must be able to make, rename and remove files below the sink's path, and its disk must be in order")
}

// passes reports whether a commit that met err may be repeated: what is full, or used
// up, gets room again.
func passes(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EINTR, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// rejected is the error of a record that cannot be written. It never shows a value; the
// engine says which record it is.
func rejected(err error) error {
	var own *stream.Error
	if errors.As(err, &own) {
		return err // an expression's, which says more
	}
	return stream.Errorf(stream.Failed, "file.row", "write row", "", "%w", err)
}
