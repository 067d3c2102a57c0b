package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"etl/stream"
)

// A segment is some rows of an epoch in their order (docs/formats/wal.md):
//
//	offset  size  field
//	0       4     "EWAL"
//	4       1     version, 1
//	5       1     length of kind
//	6       2     0
//	8       8     checkpoint the rows belong to
//	16      4     subtask that wrote them
//	20      4     number of the segment in its epoch, from 0
//	24      4     number of rows
//	28      4     length of body
//	32      ...   kind, which says how the body is read
//	...     ...   body
//	...     4     CRC-32C of everything before
//
// Numbers are big-endian.
type Segment struct {
	Kind       string
	Checkpoint stream.CheckpointID
	Subtask    int
	Number     int
	Rows       int
	Body       []byte
}

const (
	segmentMagic   = "EWAL"
	segmentVersion = 1
	segmentHead    = 32
	segmentTail    = 4
	// maxBody is what the field can say; rows are far smaller.
	maxBody = 1<<32 - 1
)

var (
	be         = binary.BigEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Append writes the segment behind dst.
func (s *Segment) Append(dst []byte) ([]byte, error) {
	if len(s.Kind) == 0 || len(s.Kind) > 255 || len(s.Body) > maxBody || s.Rows < 0 || s.Subtask < 0 || s.Number < 0 {
		return dst, fmt.Errorf("a segment of kind %q with %d rows in %d bytes, number %d of subtask %d", s.Kind, s.Rows, len(s.Body), s.Number, s.Subtask)
	}
	at := len(dst)
	dst = append(dst, segmentMagic...)
	dst = append(dst, segmentVersion, byte(len(s.Kind)), 0, 0)
	dst = be.AppendUint64(dst, uint64(s.Checkpoint))
	for _, n := range []int{s.Subtask, s.Number, s.Rows, len(s.Body)} {
		dst = be.AppendUint32(dst, uint32(n))
	}
	dst = append(append(dst, s.Kind...), s.Body...)
	return be.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli)), nil
}

// DecodeSegment reads one segment, which must be all of b; the result points into it.
func DecodeSegment(b []byte) (*Segment, error) {
	switch {
	case len(b) < segmentHead+segmentTail || string(b[:4]) != segmentMagic:
		return nil, errors.New("it does not begin as a segment does")
	case b[4] != segmentVersion:
		return nil, fmt.Errorf("its version is %d; this program knows %d", b[4], segmentVersion)
	case b[6] != 0 || b[7] != 0:
		return nil, errors.New("its reserved bytes are not 0")
	}
	kind, body := int(b[5]), uint64(be.Uint32(b[28:]))
	if uint64(len(b)) != uint64(segmentHead+kind+segmentTail)+body || kind == 0 {
		return nil, fmt.Errorf("it has %d bytes, and speaks of a kind of %d and a body of %d", len(b), kind, body)
	}
	end := len(b) - segmentTail
	if sum := crc32.Checksum(b[:end], castagnoli); sum != be.Uint32(b[end:]) {
		return nil, fmt.Errorf("its checksum is %08x instead of %08x", sum, be.Uint32(b[end:]))
	}
	s := &Segment{Kind: string(b[segmentHead : segmentHead+kind]), Checkpoint: stream.CheckpointID(be.Uint64(b[8:])), Body: b[segmentHead+kind : end : end]}
	for i, into := range []*int{&s.Subtask, &s.Number, &s.Rows} {
		v := be.Uint32(b[16+4*i:])
		if v > 1<<31-1 {
			return nil, fmt.Errorf("the number %d at offset %d is too large", v, 16+4*i)
		}
		*into = int(v)
	}
	return s, nil
}
