package stream

// Header is one Kafka record header. Keys may repeat and order is kept; a nil
// value is null, which is not the same as empty.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record on its way through a job. Byte slices belong to the
// batch (see the package comment). A nil Key or Value is null, an empty one is
// empty: the two are never confused.
type Record struct {
	Key     []byte
	Value   []byte
	Headers []Header
	// Timestamp is the record's time in milliseconds since 1970, -1 for none.
	Timestamp int64
	// Group is the key of the last rekey in its canonical form (see
	// expr.AppendKey), nil before the first one; Hash is Hash(Group).
	Group []byte
	Hash  uint64
	// Topic, Partition and Offset say where the record, or the record it was
	// derived from, was read. They are for messages and dead letters; positions
	// come from splits only.
	Topic     string
	Partition int32
	Offset    int64
	// Pos is the record's index in its batch's Origin, when the record is that
	// very record, unchanged; -1 otherwise.
	Pos int32
	// Doc is the parsed form of Value, kept for the operators chained behind
	// the one that parsed it. An exchange drops it.
	Doc any
}

// Derived returns a record that takes r's provenance and time and nothing else.
func (r *Record) Derived() Record {
	return Record{Timestamp: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Pos: -1}
}
