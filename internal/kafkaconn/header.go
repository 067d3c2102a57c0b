package kafkaconn

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

// A header is the same two fields on both sides, so a slice of one is a slice of
// the other: converting copies nothing. The compiler refuses these conversions
// should the types ever differ.
var (
	_ = stream.Header(kgo.RecordHeader{})
	_ = kgo.RecordHeader(stream.Header{})
)

// StreamHeaders returns the headers of a fetched record as the engine's, sharing
// their memory.
func StreamHeaders(hs []kgo.RecordHeader) []stream.Header {
	return unsafe.Slice((*stream.Header)(unsafe.Pointer(unsafe.SliceData(hs))), len(hs))
}

// KafkaHeaders returns the headers of an engine's record as kgo's, sharing their
// memory.
func KafkaHeaders(hs []stream.Header) []kgo.RecordHeader {
	return unsafe.Slice((*kgo.RecordHeader)(unsafe.Pointer(unsafe.SliceData(hs))), len(hs))
}
