package keyed

import (
	"bytes"
	"encoding/binary"
	"errors"

	"etl/stream"
)

// A full key, in segments, base and scratch, sorts by key group, state, user key
// and namespace:
//
//	key group u16 BE | state id u16 BE | user key, escaped | 0x00 0x01 | namespace
//
// In the user key 0x00 is written 0x00 0xff, so that no key is a prefix of
// another and the order of keys is kept. The namespace is empty today.
const (
	keyPrefix     = 4
	keyTerminator = 2
	// MetaGroup is a key group that no key has: the base keeps its marks there.
	MetaGroup stream.KeyGroup = 0xffff
)

// keyCoder makes the full keys of one state.
type keyCoder struct {
	state    uint16
	parallel int // maximum parallelism: the number of key groups
}

func (c keyCoder) group(key []byte) stream.KeyGroup {
	return stream.KeyGroupOf(stream.Hash(key), c.parallel)
}

// size returns the length of the full key.
func (c keyCoder) size(key []byte) int {
	return keyPrefix + len(key) + bytes.Count(key, []byte{0}) + keyTerminator
}

// append adds the full key to b.
func (c keyCoder) append(b []byte, g stream.KeyGroup, key []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(g))
	b = binary.BigEndian.AppendUint16(b, c.state)
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			break
		}
		b = append(append(b, key[:i+1]...), 0xff)
		key = key[i+1:]
	}
	return append(append(b, key...), 0, 1)
}

var errKey = errors.New("malformed key")

// splitKey takes a full key apart; the user key is unescaped into buf if it has
// to be, and lies in full otherwise.
func splitKey(full, buf []byte) (g stream.KeyGroup, state uint16, key []byte, err error) {
	if len(full) < keyPrefix+keyTerminator {
		return 0, 0, nil, errKey
	}
	g, state = stream.KeyGroup(binary.BigEndian.Uint16(full)), binary.BigEndian.Uint16(full[2:])
	rest := full[keyPrefix:]
	i := bytes.IndexByte(rest, 0)
	if i == len(rest)-2 && rest[i+1] == 1 {
		return g, state, rest[:i], nil
	}
	buf = buf[:0]
	for ; i >= 0 && i+1 < len(rest); i = bytes.IndexByte(rest, 0) {
		switch {
		case rest[i+1] == 0xff:
			buf = append(buf, rest[:i+1]...)
			rest = rest[i+2:]
		case rest[i+1] == 1 && i == len(rest)-2:
			return g, state, append(buf, rest[:i]...), nil
		default:
			return 0, 0, nil, errKey
		}
	}
	return 0, 0, nil, errKey
}

// A value envelope is a varint expiry, 0 for none, and the payload: state that
// had no expiry can get one later.

// AppendEnvelope adds the envelope of a payload that does not expire to b.
func AppendEnvelope(b, payload []byte) []byte { return append(append(b, 0), payload...) }

func openEnvelope(b []byte) (payload []byte, err error) {
	_, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errors.New("malformed value envelope")
	}
	return b[n:], nil
}

// StateRange returns the range of full keys of one state in one key group.
func StateRange(g stream.KeyGroup, state uint16) (from, to []byte) {
	from = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(g)), state)
	next := uint32(g)<<16 | uint32(state) + 1
	return from, binary.BigEndian.AppendUint32(nil, next)
}
