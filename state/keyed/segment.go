package keyed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"etl/stream"
)

// The segment format, version 1: see docs/formats/segment.md.
const (
	segmentMagic  = "etlseg\x00\x01"
	segmentFooter = "etlend\x00\x01"
	fixedHeader   = 76
	maxHeader     = 1 << 20
	frameHeader   = 16
	indexEntry    = 16
	footerTail    = 24
	reprHeader    = 12
	maxBody       = 1<<31 - 1
	codecNone     = 0
)

// Kinds of records in a body: those of Pebble's batch representation.
const (
	kindDelete = 0
	kindSet    = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errSegment = errors.New("malformed segment")

// SegmentHeader describes a segment: it can be read without anything else.
type SegmentHeader struct {
	Lineage        stream.Lineage
	From, To       stream.CheckpointID
	Entries        int64
	KeyGroups      stream.KeyGroupRange
	MaxParallelism int
	Frames         int
	Task           stream.TaskID
	States         []Name // those of this task; UID is Task's
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// append adds the encoded header to b.
func (h *SegmentHeader) append(b []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, segmentMagic...)
	b = append(b, 0, 0, 0, 0) // length, below
	b = append(b, h.Lineage[:]...)
	b = le.AppendUint64(b, uint64(h.From))
	b = le.AppendUint64(b, uint64(h.To))
	b = le.AppendUint64(b, uint64(h.Entries))
	b = le.AppendUint16(b, uint16(h.KeyGroups.From))
	b = le.AppendUint16(b, uint16(h.KeyGroups.To))
	b = le.AppendUint32(b, uint32(h.MaxParallelism))
	b = le.AppendUint32(b, uint32(h.Frames))
	b = le.AppendUint32(b, uint32(h.Task.Subtask))
	b = le.AppendUint32(b, uint32(len(h.States)))
	b = append(b, 0, 0, 0, 0) // reserved
	b = appendString(b, string(h.Task.UID))
	for _, n := range h.States {
		b = le.AppendUint16(b, n.ID)
		b = appendString(appendString(appendString(b, n.State), n.Kind), n.Serializer)
	}
	le.PutUint32(b[start+8:], uint32(len(b)-start+4))
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parse reads what append writes; b is the whole header.
func (h *SegmentHeader) parse(b []byte) error {
	le := binary.LittleEndian
	if len(b) < fixedHeader+4 || crc32.Checksum(b[:len(b)-4], castagnoli) != le.Uint32(b[len(b)-4:]) {
		return fmt.Errorf("%w: header checksum", errSegment)
	}
	copy(h.Lineage[:], b[12:])
	h.From, h.To = stream.CheckpointID(le.Uint64(b[28:])), stream.CheckpointID(le.Uint64(b[36:]))
	h.Entries = int64(le.Uint64(b[44:]))
	h.KeyGroups = stream.KeyGroupRange{From: stream.KeyGroup(le.Uint16(b[52:])), To: stream.KeyGroup(le.Uint16(b[54:]))}
	h.MaxParallelism = int(le.Uint32(b[56:]))
	h.Frames, h.Task.Subtask = int(le.Uint32(b[60:])), int(int32(le.Uint32(b[64:])))
	states := int(le.Uint32(b[68:]))
	rest := b[fixedHeader : len(b)-4]
	var s [4]string
	var ok bool
	if s[0], rest, ok = takeString(rest); !ok {
		return fmt.Errorf("%w: header strings", errSegment)
	}
	h.Task.UID = stream.UID(s[0])
	for range states {
		if len(rest) < 2 {
			return fmt.Errorf("%w: header states", errSegment)
		}
		n := Name{ID: le.Uint16(rest), UID: h.Task.UID}
		rest = rest[2:]
		for _, p := range []*string{&n.State, &n.Kind, &n.Serializer} {
			if *p, rest, ok = takeString(rest); !ok {
				return fmt.Errorf("%w: header strings", errSegment)
			}
		}
		h.States = append(h.States, n)
	}
	return nil
}

func takeString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.LittleEndian.Uint16(b))
	if len(b) < 2+n {
		return "", nil, false
	}
	return string(b[2 : 2+n]), b[2+n:], true
}

// source is a part of a segment: the records of a delta, or, unless epoch is 0,
// those of them that were changed in that epoch.
type source struct {
	d     *delta
	epoch uint32
}

// encoder writes one segment from sources, grouped by key group. It goes over
// the records twice: to count, so that every byte has its place, and to write.
type encoder struct {
	header  SegmentHeader
	coders  []keyCoder // by table
	sources []source
	groups  []groupPart // by key group, from header.KeyGroups.From
}

type groupPart struct {
	count uint32
	size  int
	at    int // the next byte to write
}

func (e *encoder) each(f func(h *header)) {
	for _, s := range e.sources {
		s.d.each(func(h *header) {
			if s.epoch == 0 || s.epoch == h.epoch {
				f(h)
			}
		})
	}
}

// encode returns the segment in a buffer from mem.
func (e *encoder) encode(mem *Budget) ([]byte, error) {
	e.groups = make([]groupPart, e.header.KeyGroups.Len())
	e.each(e.count)
	total := 0
	for g := range e.groups {
		p := &e.groups[g]
		if p.count == 0 {
			continue
		}
		if p.size > maxBody {
			return nil, fmt.Errorf("the changes of key group %d take %d bytes, the most are %d", int(e.header.KeyGroups.From)+g, p.size, maxBody)
		}
		e.header.Frames++
		e.header.Entries += int64(p.count)
		total += frameHeader + reprHeader + p.size
	}
	head := e.header.append(nil)
	size := len(head) + total + e.header.Frames*indexEntry + footerTail
	buf := mem.frame(size)
	copy(buf, head)
	e.place(len(head))
	e.each(func(h *header) { e.write(buf, h) })
	e.finish(buf, len(head)+total)
	return buf, nil
}

// count adds one record to its group, and notes the group in the record.
func (e *encoder) count(h *header) {
	c := e.coders[h.class]
	key := h.key()
	g := int(c.group(key)) - int(e.header.KeyGroups.From)
	h.pos = uint32(g)
	p := &e.groups[g]
	p.count++
	k := c.size(key)
	p.size += 1 + uvarintLen(k) + k
	if h.flags&live != 0 {
		p.size += uvarintLen(1+int(h.vlen)) + 1 + int(h.vlen)
	}
}

// place gives every group its bytes.
func (e *encoder) place(at int) {
	for g := range e.groups {
		if p := &e.groups[g]; p.count > 0 {
			p.at = at + frameHeader + reprHeader
			at = p.at + p.size
		}
	}
}

// write puts one record in its place.
func (e *encoder) write(buf []byte, h *header) {
	p := &e.groups[h.pos]
	c := e.coders[h.class]
	key := h.key()
	b := buf[p.at:p.at]
	kind := byte(kindDelete)
	if h.flags&live != 0 {
		kind = kindSet
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(c.size(key)))
	b = c.append(b, e.header.KeyGroups.From+stream.KeyGroup(h.pos), key)
	if kind == kindSet {
		b = binary.AppendUvarint(b, uint64(1+h.vlen))
		b = AppendEnvelope(b, h.value(int(h.vlen)))
	}
	p.at += len(b)
}

// finish writes the headers of the frames, their checksums and the footer.
func (e *encoder) finish(buf []byte, at int) {
	le := binary.LittleEndian
	index := buf[at:at]
	for g := range e.groups {
		p := &e.groups[g]
		if p.count == 0 {
			continue
		}
		start := p.at - p.size - reprHeader - frameHeader
		f := buf[start:p.at]
		le.PutUint16(f, uint16(int(e.header.KeyGroups.From)+g))
		f[2], f[3] = codecNone, 0
		le.PutUint32(f[4:], p.count)
		le.PutUint32(f[8:], uint32(reprHeader+p.size))
		le.PutUint64(f[frameHeader:], 0) // sequence number: given by who applies it
		le.PutUint32(f[frameHeader+8:], p.count)
		le.PutUint32(f[12:], frameCRC(f))
		index = le.AppendUint16(index, uint16(int(e.header.KeyGroups.From)+g))
		index = le.AppendUint16(index, 0)
		index = le.AppendUint32(index, p.count)
		index = le.AppendUint64(index, uint64(start))
	}
	index = le.AppendUint32(index, uint32(e.header.Frames))
	index = le.AppendUint32(index, crc32.Checksum(index, castagnoli))
	index = le.AppendUint64(index, uint64(at))
	_ = append(index, segmentFooter...)
}

// frameCRC is the checksum of a frame but for the field that holds it.
func frameCRC(f []byte) uint32 {
	return crc32.Update(crc32.Checksum(f[:12], castagnoli), castagnoli, f[frameHeader:])
}

func uvarintLen(n int) int {
	l := 1
	for ; n >= 0x80; n >>= 7 {
		l++
	}
	return l
}
