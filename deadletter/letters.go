package deadletter

import (
	"context"

	"etl/checkpoint"
	"etl/source"
	"etl/stream"
)

// Letters are the dead letters that one sink has written and committed. Each kind of
// store has an implementation: [Kafka], [Table], [Files].
type Letters interface {
	// Sink is the sink's name, Place where it writes: a topic, a table, a directory.
	Sink() string
	Place() string
	// Form says how the place of one letter is written (Found.At).
	Form() Form
	// Records returns nil when the letters hold the records as they were read, and else
	// an error that says what they lack: they can be listed, and neither shown nor
	// replayed.
	Records() error
	// Read gives every letter that can be read now to f, in an order that stays: letters
	// come and go, and two that are there keep theirs. The letter is good until f
	// returns. Others are what lies there and is no letter.
	Read(ctx context.Context, w stream.World, f func(*Found) error) (others int64, err error)

	// prefix begins the names of the replay's transactions; "" for what each cluster's
	// own sinks have.
	prefix() string
	// source makes the source of a replay's job, which reads the letters that are there
	// now and that no job before has read.
	source(ctx context.Context, to *reading) (source.Connector, error)
}

// reading is what the source of a replay's job is made with.
type reading struct {
	world stream.World
	tally *Tally
	// own is the storage of the job. It may have been begun by an earlier call.
	own checkpoint.Storage
	// before are the finished jobs of the same replay: their storages, and where the
	// last of them ended. Both are empty for a replay that begins at the oldest letter.
	before []checkpoint.Storage
	ended  []stream.Split
}

// Form is how the place of a letter is written.
type Form struct {
	Words   string // PARTITION@OFFSET
	Pattern string // a regular expression
}

// ID tells a letter of a table or a file from all others of the sink, however often it
// is read.
type ID [16]byte

// Found is a letter and where it lies.
type Found struct {
	stream.Letter
	Sink string
	// At is the place, in the sink's Form.
	At string
	// ID is zero in a topic, where positions tell.
	ID ID
	// Partition and Offset order letters of the same time.
	Partition int32
	Offset    int64
}
