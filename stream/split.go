package stream

import (
	"cmp"
	"encoding/hex"
	"fmt"
)

// TopicID is Kafka's identity of a topic: a topic deleted and made again under
// the same name has another one.
type TopicID [16]byte

// IsZero reports whether the id is not known.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// MarshalText writes hex digits.
func (t TopicID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(t[:])), nil }

// UnmarshalText reads hex digits.
func (t *TopicID) UnmarshalText(b []byte) error {
	d, err := hex.DecodeString(string(b))
	if err != nil || len(d) != len(t) {
		return fmt.Errorf("topic id %q is not 32 hex digits", b)
	}
	copy(t[:], d)
	return nil
}

// Unbounded is the End of a split that never ends.
const Unbounded int64 = -1

// Split is a topic partition as a source reads it. NextOffset is the next
// offset to read, past control markers; LeaderEpoch the epoch of the last record
// read (KIP-320), -1 for none; End the offset at which a bounded read is over,
// reached by position and not by record, or Unbounded.
type Split struct {
	Topic       string  `json:"topic"`
	TopicID     TopicID `json:"topic_id"`
	Partition   int32   `json:"partition"`
	NextOffset  int64   `json:"next_offset"`
	LeaderEpoch int32   `json:"leader_epoch"`
	End         int64   `json:"end"`
}

// Finished reports whether a bounded split has been read to its end.
func (s *Split) Finished() bool { return s.End != Unbounded && s.NextOffset >= s.End }

// String returns "topic/partition@next".
func (s *Split) String() string { return fmt.Sprintf("%s/%d@%d", s.Topic, s.Partition, s.NextOffset) }

// CompareSplits orders splits by topic and partition.
func CompareSplits(a, b Split) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Range is a run of source offsets, [From, To), for reports of what is missing.
type Range struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// String returns "topic/partition[from,to)".
func (r Range) String() string {
	return fmt.Sprintf("%s/%d[%d,%d)", r.Topic, r.Partition, r.From, r.To)
}
