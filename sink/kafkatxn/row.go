package kafkatxn

import "etl/stream"

// Row is one row on its way out. An Encoder fills it in; before, it holds what a pass
// through would write.
type Row struct {
	Topic      string // one of the sink's topics
	Key, Value []byte // nil is null
	Headers    []stream.Header
	// Partition is where the row must go; -1 means by the key as Java's clients do it
	// (murmur2), or, without a key, wherever it is cheapest.
	Partition int32
}

// ByKey as Row.Partition lets the key decide.
const ByKey int32 = -1

// Encoder turns a record into a row. New bytes come from mem (Alloc, Copy) or live at
// least as long. An error rejects the record.
type Encoder func(r *stream.Record, mem *stream.Batch, row *Row) error
