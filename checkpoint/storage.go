package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"etl/stream"
)

// ErrExists is what Storage.PutIfAbsent wraps when the name is taken.
var ErrExists = errors.New("object exists")

// ErrNotFound is what Storage wraps when there is no such object.
var ErrNotFound = errors.New("object not found")

// ErrNotDurable is what Storage wraps when the disk refused to confirm a write
// (fsync). What can be read back then may lie in the page cache only, and a
// second fsync may succeed without having written anything, so nothing is
// concluded from a look, nothing is tried again, and the attempt ends (I16).
var ErrNotDurable = errors.New("not confirmed by the disk")

// Info describes an object.
type Info struct {
	Name string
	Size int64
}

// Storage is where the checkpoints of one job live: a flat set of immutable
// objects with '/'-separated names below the job's root, each of a form that
// CheckName accepts. Every write and every removal is durable when it returns.
// Nothing is ever overwritten.
type Storage interface {
	// PutIfAbsent creates the object with all its contents at once, or fails with
	// ErrExists. After any other error the outcome is unknown: read it back.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// Create stores a new object of any size under a name that is never used
	// twice, and returns its size and the CRC-32C of its contents. The object
	// appears with all its contents or not at all.
	Create(ctx context.Context, name string, r io.Reader) (size int64, crc uint32, err error)
	// Get returns a small object, or ErrNotFound.
	Get(ctx context.Context, name string) ([]byte, error)
	// Open reads size bytes at offset. An object that ends before that makes
	// Open or a Read fail.
	Open(ctx context.Context, name string, offset, size int64) (io.ReadCloser, error)
	// Stat returns an object's size, or ErrNotFound.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the objects whose names begin with prefix, sorted by name.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes an object; removing what is not there is no error.
	Delete(ctx context.Context, name string) error
	// Note adds a line to a journal under name, which Get reads. It is best
	// effort, for history and diagnosis only: nothing of the protocol reads it. A
	// journal that has grown to JournalLimit is moved to name + ".1".
	Note(ctx context.Context, name string, line []byte) error
	// Lock takes the job's advisory lock, which only refuses accidental second
	// starts: ownership is decided by the log. When it is held, held describes the
	// holder, unlock is nil and err is nil. takeOver takes it anyway, and the
	// other's unlock then does not harm. A stopped process keeps it, a dead one
	// does not. Who gets it may also tidy up what writers that died left behind.
	Lock(ctx context.Context, me Holder, takeOver bool) (unlock func() error, held *Holder, err error)
	// URL names the storage in messages.
	URL() string
}

// JournalLimit is the size in bytes at which a journal of notes is started anew.
const JournalLimit = 1 << 20

// CheckName refuses names that a Storage must not be asked for: they have parts
// of letters, digits, '.', '_' and '-', separated by '/', none beginning with '.',
// none longer than 200 bytes, 1000 in all. So no name leaves the job's root, and
// none meets the files a Storage keeps for itself.
func CheckName(name string) error {
	bad := len(name) > 1000
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part[0] == '.' || len(part) > 200 || strings.Trim(part, nameChars) != ""
	}
	if bad {
		return fmt.Errorf("%q is not a name of an object", name)
	}
	return nil
}

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// Holder says who runs, or ran, an attempt.
type Holder struct {
	Host    string         `json:"host"`
	PID     int            `json:"pid"`
	Attempt stream.Attempt `json:"attempt"`
	Since   string         `json:"since"`
	Command string         `json:"command,omitempty"`
}
