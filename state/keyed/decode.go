package keyed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"etl/stream"
)

// segmentReader reads a segment as a stream, one frame in memory at a time. It
// trusts nothing: every length is checked against what is left, every checksum
// before its bytes are used.
type segmentReader struct {
	Header SegmentHeader
	r      *bufio.Reader
	left   int64
	frames int
	count  int64  // entries so far
	index  uint32 // running checksum of the footer's index, as it must be
	at     int64
	body   []byte
}

// newSegmentReader reads the header of a segment of size bytes.
func newSegmentReader(r io.Reader, size int64) (*segmentReader, error) {
	s := &segmentReader{r: bufio.NewReaderSize(r, 64<<10), left: size}
	start, err := s.take(12)
	if err != nil {
		return nil, err
	}
	if string(start[:8]) != segmentMagic {
		return nil, fmt.Errorf("%w: it does not begin as a segment of version 1", errSegment)
	}
	n := int64(binary.LittleEndian.Uint32(start[8:]))
	if n < fixedHeader+4 || n > maxHeader || n-12 > s.left {
		return nil, fmt.Errorf("%w: a header of %d bytes", errSegment, n)
	}
	head := append([]byte(nil), start...)
	rest, err := s.take(int(n) - 12)
	if err != nil {
		return nil, err
	}
	return s, s.Header.parse(append(head, rest...))
}

// take reads n bytes, valid until the next take.
func (s *segmentReader) take(n int) ([]byte, error) {
	if int64(n) > s.left {
		return nil, fmt.Errorf("%w: it ends early", errSegment)
	}
	if cap(s.body) < n {
		s.body = make([]byte, n)
	}
	b := s.body[:n]
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, err
	}
	s.left -= int64(n)
	s.at += int64(n)
	return b, nil
}

// skip leaves n bytes out.
func (s *segmentReader) skip(n int) error {
	if int64(n) > s.left {
		return fmt.Errorf("%w: it ends early", errSegment)
	}
	for m := n; m > 0; {
		d, err := s.r.Discard(min(m, 1<<20))
		if err != nil {
			return err
		}
		m -= d
	}
	s.left -= int64(n)
	s.at += int64(n)
	return nil
}

// next returns the body of the next frame whose key group is wanted, valid
// until the call after it, or io.EOF when the segment has been read to its end
// and its footer agrees.
func (s *segmentReader) next(want func(stream.KeyGroup) bool) (g stream.KeyGroup, count uint32, body []byte, err error) {
	le := binary.LittleEndian
	for ; s.frames < s.Header.Frames; s.frames++ {
		start := s.at
		var f [frameHeader]byte
		b, err := s.take(frameHeader)
		if err != nil {
			return 0, 0, nil, err
		}
		copy(f[:], b)
		g, count = stream.KeyGroup(le.Uint16(f[:])), le.Uint32(f[4:])
		n := le.Uint32(f[8:])
		if n < reprHeader || n > maxBody || f[2] != codecNone || !s.Header.KeyGroups.Contains(g) {
			return g, 0, nil, fmt.Errorf("%w: frame of key group %d", errSegment, g)
		}
		s.note(g, count, start)
		if !want(g) {
			if err := s.skip(int(n)); err != nil {
				return g, 0, nil, err
			}
			continue
		}
		if body, err = s.take(int(n)); err != nil {
			return g, 0, nil, err
		}
		if crc32.Update(crc32.Checksum(f[:12], castagnoli), castagnoli, body) != le.Uint32(f[12:]) {
			return g, 0, nil, fmt.Errorf("%w: checksum of key group %d", errSegment, g)
		}
		if le.Uint32(body[8:]) != count {
			return g, 0, nil, fmt.Errorf("%w: count of key group %d", errSegment, g)
		}
		s.frames++
		return g, count, body[reprHeader:], nil
	}
	return 0, 0, nil, s.footer()
}

// note adds an entry to the checksum that the footer's index must have.
func (s *segmentReader) note(g stream.KeyGroup, count uint32, start int64) {
	var e [indexEntry]byte
	binary.LittleEndian.PutUint16(e[:], uint16(g))
	binary.LittleEndian.PutUint32(e[4:], count)
	binary.LittleEndian.PutUint64(e[8:], uint64(start))
	s.index = crc32.Update(s.index, castagnoli, e[:])
	s.count += int64(count)
}

// footer checks the rest of the segment and returns io.EOF when it is right.
func (s *segmentReader) footer() error {
	at := s.at
	b, err := s.take(s.Header.Frames * indexEntry)
	if err != nil {
		return err
	}
	if crc32.Checksum(b, castagnoli) != s.index {
		return fmt.Errorf("%w: index", errSegment)
	}
	if b, err = s.take(footerTail); err != nil {
		return err
	}
	le := binary.LittleEndian
	crc := crc32.Update(s.index, castagnoli, b[:4])
	if s.count != s.Header.Entries || int(le.Uint32(b)) != s.Header.Frames || le.Uint32(b[4:]) != crc || int64(le.Uint64(b[8:])) != at ||
		string(b[16:]) != segmentFooter || s.left != 0 {
		return fmt.Errorf("%w: footer", errSegment)
	}
	// Reading past the end lets the source verify its own checksum.
	if _, err := s.r.ReadByte(); err == nil || !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it goes on after its end (%v)", errSegment, err)
	}
	return io.EOF
}

// eachRecord calls f for every record of a body; value is nil for a deletion
// and an envelope otherwise.
func eachRecord(body []byte, f func(key, value []byte, del bool) error) error {
	for len(body) > 0 {
		kind := body[0]
		var key, value []byte
		var ok bool
		if key, body, ok = takeBytes(body[1:]); !ok {
			return fmt.Errorf("%w: key of a record", errSegment)
		}
		if kind != kindDelete {
			if kind != kindSet {
				return fmt.Errorf("%w: record of kind %d", errSegment, kind)
			}
			if value, body, ok = takeBytes(body); !ok {
				return fmt.Errorf("%w: value of a record", errSegment)
			}
		}
		if err := f(key, value, kind == kindDelete); err != nil {
			return err
		}
	}
	return nil
}

func takeBytes(b []byte) (p, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, false
	}
	return b[w : w+int(n)], b[w+int(n):], true
}
