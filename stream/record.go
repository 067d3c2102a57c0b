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
	// Pos is the record's index in its batch's Origin, when the record is that
	// very record, unchanged; -1 otherwise.
	Pos    int32
	Offset int64
	// Version counts the updates of the record's key up to this value, for sinks
	// that must tell an older value from a newer one; 0: nobody counted. A record
	// that is made of several others, or of a part of one, has none.
	Version uint64
	// Made says that the record as it was read is not at hand: this one was made of
	// several, or came over an exchange that left Orig behind.
	Made bool
	// Doc is the parsed form of Value, kept for the operators chained behind
	// the one that parsed it. An exchange drops it.
	Doc any
	// Orig is the record as it was read, kept by whoever changes key, value or
	// headers; nil when this is that record. It lives as long as the batch, which
	// is derived from the one that holds it. An exchange copies it where dead
	// letters may need it behind it.
	Orig *Record
}

// AsRead returns the record as it was read, r itself when nobody changed it, or when
// it is Made.
func (r *Record) AsRead() *Record {
	if r.Orig != nil && !r.Made {
		return r.Orig
	}
	return r
}

// Derived returns a record that takes r's provenance and time and nothing else. It is
// Made: whoever makes it of r alone, in a batch derived from that of r, may set Orig to
// r.AsRead() instead.
func (r *Record) Derived() Record {
	return Record{Timestamp: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Pos: -1, Made: true}
}
