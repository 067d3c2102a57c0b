package checkpoint

import (
	"context"
	"errors"
	"io"

	"etl/stream"
)

// ErrExists is what Storage.PutIfAbsent wraps when the name is taken.
var ErrExists = errors.New("object exists")

// ErrNotFound is what Storage wraps when there is no such object.
var ErrNotFound = errors.New("object not found")

// Info describes an object.
type Info struct {
	Name string
	Size int64
}

// Storage is where the checkpoints of one job live: a flat set of immutable
// objects with '/'-separated names below the job's root. Every write is durable
// when it returns. Nothing is ever overwritten.
type Storage interface {
	// PutIfAbsent creates the object with all its contents at once, or fails with
	// ErrExists. After any other error the outcome is unknown: read it back.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// Create stores a new object of any size under a name that is never used
	// twice, and returns its size and the CRC-32C of its contents.
	Create(ctx context.Context, name string, r io.Reader) (size int64, crc uint32, err error)
	// Get returns a small object, or ErrNotFound.
	Get(ctx context.Context, name string) ([]byte, error)
	// Open reads size bytes at offset.
	Open(ctx context.Context, name string, offset, size int64) (io.ReadCloser, error)
	// Stat returns an object's size, or ErrNotFound.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the objects whose names begin with prefix, sorted by name.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes an object; removing what is not there is no error.
	Delete(ctx context.Context, name string) error
	// Note adds a line to a journal under name. It is best effort, for history
	// and diagnosis only: nothing of the protocol reads it.
	Note(ctx context.Context, name string, line []byte) error
	// Lock takes the job's advisory lock, which only refuses accidental second
	// starts: ownership is decided by the log. When it is held, held describes the
	// holder and err is nil. takeOver takes it anyway.
	Lock(ctx context.Context, me Holder, takeOver bool) (unlock func() error, held *Holder, err error)
	// URL names the storage in messages.
	URL() string
}

// Holder says who runs, or ran, an attempt.
type Holder struct {
	Host    string         `json:"host"`
	PID     int            `json:"pid"`
	Attempt stream.Attempt `json:"attempt"`
	Since   string         `json:"since"`
	Command string         `json:"command,omitempty"`
}
