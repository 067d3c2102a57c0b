package state

import (
	"context"
	"io"

	"etl/stream"
)

// Scope says who may use and delete the bytes of a handle.
type Scope string

const (
	// Inline bytes lie in the handle.
	Inline Scope = "inline"
	// Private bytes belong to one checkpoint.
	Private Scope = "private"
	// Shared bytes may be listed by many checkpoints; they go when no retained
	// metadata, savepoint or open ledger entry reaches them (invariant 18).
	Shared Scope = "shared"
)

// Role says what the bytes are.
type Role string

// The roles of handles in metadata version 1.
const (
	Segment  Role = "segment"  // changes of keyed state in the epochs (From, To]
	BaseFile Role = "base"     // one file of a materialized base
	Operator Role = "operator" // list state of an operator, redistributed by Mode
	Writer   Role = "writer"   // rows a sink writer keeps over a restart
	Rows     Role = "rows"     // rows of a committable (write-ahead-log sinks)
	InFlight Role = "inflight" // elements a barrier overtook on an edge
)

// Mode says how operator state is handed to the subtasks of a restored operator.
type Mode string

// The redistribution modes.
const (
	EvenSplit Mode = "even_split"
	Union     Mode = "union"
	Broadcast Mode = "broadcast"
)

// Handle says where bytes of a snapshot lie and what they are. It is plain data:
// metadata holds it, and any process can follow it.
type Handle struct {
	Role  Role  `json:"role"`
	Scope Scope `json:"scope"`
	// Object is the object's name under the job's storage root; Offset and Size
	// the range in it, for frames packed into one object. CRC is the CRC-32C of
	// the range and is verified at restore.
	Object string `json:"object,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Size   int64  `json:"size"`
	CRC    uint32 `json:"crc32c"`
	Bytes  []byte `json:"bytes,omitempty"` // Inline only

	// Segments: the epochs covered and the number of entries.
	From    stream.CheckpointID `json:"from,omitempty"`
	To      stream.CheckpointID `json:"to,omitempty"`
	Entries int64               `json:"entries,omitempty"`
	// KeyGroups are those the bytes can hold (segments, bases).
	KeyGroups stream.KeyGroupRange `json:"key_groups,omitzero"`
	// Base names the base a BaseFile belongs to, File its name there. The epoch
	// the base ends at is To.
	Base string `json:"base,omitempty"`
	File string `json:"file,omitempty"`
	// Name and Mode are those of operator state.
	Name string `json:"name,omitempty"`
	Mode Mode   `json:"mode,omitempty"`
}

// Ticket is a frame on its way to durability.
type Ticket interface {
	// Wait returns when the frame is durable. The handle's Object, Offset, Size,
	// CRC, Scope and Bytes are filled in; the rest is the caller's.
	Wait(ctx context.Context) (Handle, error)
}

// Uploader makes frames durable. It packs the frames of many subtasks into one
// object, group-committed by size and time; small frames become Inline. The frame
// must not change, and is read, until Wait has returned; only an Inline handle
// may go on pointing into it.
type Uploader interface {
	Append(role Role, frame []byte) Ticket
}

// Objects is the part of checkpoint storage that a backend needs for its base.
type Objects interface {
	// Create stores r under name, durable when it returns. Names are unique for
	// ever: they carry lineage, attempt and a counter or a random part.
	Create(ctx context.Context, name string, r io.Reader) (size int64, crc uint32, err error)
	// Read opens the range of a handle and verifies its checksum at the end:
	// the last Read fails rather than return altered bytes as complete.
	Read(ctx context.Context, h Handle) (io.ReadCloser, error)
}
