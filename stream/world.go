package stream

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"
)

// Clock is the time a job lives in. Inside testing/synctest the system clock is
// the bubble's.
type Clock interface {
	Now() time.Time
	// Sleep waits for d or until ctx ends, whose error it returns.
	Sleep(ctx context.Context, d time.Duration) error
	// Ticker calls for a value on C every d until Stop.
	Ticker(d time.Duration) Ticker
}

// Ticker is what Clock.Ticker returns.
type Ticker interface {
	C() <-chan time.Time
	Stop()
}

// Dialer opens connections.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// FS is the file system that durable parts write through. Names are ordinary
// paths. Every error of Sync is fatal to the attempt (I16).
type FS interface {
	MkdirAll(dir string, perm fs.FileMode) error
	// Create makes a new file and fails with fs.ErrExist when there is one.
	Create(name string, perm fs.FileMode) (File, error)
	Open(name string) (File, error)
	// Link gives the file a second name; fs.ErrExist when newName is taken.
	Link(oldName, newName string) error
	Rename(oldName, newName string) error
	Remove(name string) error
	// List returns the names in dir, sorted, without directories' contents.
	List(dir string) ([]string, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
}

// File is an open file of an FS.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes the contents durable.
	Sync() error
}

// World is everything of the outside that a job touches besides its servers.
type World struct {
	Clock   Clock
	FS      FS
	Dial    Dialer
	Entropy io.Reader // for lineages and nonces
	Log     *slog.Logger
}

// Env is what a component is opened with.
type Env struct {
	World
	Job         string
	Lineage     Lineage
	Attempt     Attempt
	UID         UID
	Subtask     int
	Parallelism int
	// MaxParallelism is the number of key groups of the job; KeyGroups are those
	// of this subtask.
	MaxParallelism int
	KeyGroups      KeyGroupRange
	// Rand is the task's own seeded source. It must not influence output.
	Rand     *rand.Rand
	Listener *Listener
	Counters *Counters
}

// Task returns the subtask's name.
func (e *Env) Task() TaskID { return TaskID{UID: e.UID, Subtask: e.Subtask} }
