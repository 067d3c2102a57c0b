package pebbledb

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// storeID tells the stores of a base apart.
type storeID struct {
	uid    stream.UID
	groups stream.KeyGroupRange
}

// mark says up to where the base has a store's changes: to the end of the segment
// it names. While later ones are being applied, Next is where that will lead; the
// base then has some of them, and only a chain that contains both ends makes it
// whole again.
type mark struct {
	Lineage stream.Lineage      `json:"lineage"`
	ID      stream.CheckpointID `json:"id"`
	Object  string              `json:"object,omitempty"`
	Offset  int64               `json:"offset,omitempty"`
	CRC     uint32              `json:"crc32c,omitempty"`
	Next    *mark               `json:"next,omitempty"`
}

func (b *Backend) markOf(h state.Handle) mark {
	return mark{Lineage: b.cfg.Lineage, ID: h.To, Object: h.Object, Offset: h.Offset, CRC: h.CRC}
}

// in returns how many segments of a chain the base has, or false if the mark is
// not the end of one (I19). A base that was loaded as baseName and not changed
// since stands at the beginning of a chain on that base.
func (m mark) in(c *keyed.Chain, baseName string) (n int, ok bool) {
	if m.Next != nil {
		next := *m.Next
		if _, ok := next.in(c, baseName); !ok {
			return 0, false
		}
	}
	if m.ID == c.BaseEnd() && c.BaseName() == baseName || m.ID == stream.NoCheckpoint && len(c.Base) == 0 {
		return 0, true
	}
	for i, h := range c.Segments {
		if h.To == m.ID && h.Object == m.Object && h.Offset == m.Offset && h.CRC == m.CRC {
			return i + 1, true
		}
	}
	return 0, false
}

// Keys of what the base says about itself. No entry has their key group.
var (
	metaPrefix = binary.BigEndian.AppendUint16(nil, uint16(keyed.MetaGroup))
	originKey  = append(bytes.Clone(metaPrefix), 'o')
	namesKey   = append(bytes.Clone(metaPrefix), 'n')
	// movingKey is there while key groups are being handed to other subtasks: marks
	// mean nothing then.
	movingKey = append(bytes.Clone(metaPrefix), 'r')
	marksKey  = append(bytes.Clone(metaPrefix), 'm')
	marksEnd  = append(bytes.Clone(metaPrefix), 'm'+1)
)

// origin says what base this is.
type origin struct {
	Lineage        stream.Lineage `json:"lineage"`
	MaxParallelism int            `json:"max_parallelism"`
	// Base is the name under which it was materialized last, "" for never.
	Base string `json:"base,omitempty"`
}

func (s storeID) key() []byte {
	k := append(bytes.Clone(marksKey), string(s.uid)...)
	k = append(k, 0)
	k = binary.BigEndian.AppendUint16(k, uint16(s.groups.From))
	return binary.BigEndian.AppendUint16(k, uint16(s.groups.To))
}

func parseStoreID(key []byte) (s storeID, err error) {
	k, ok := bytes.CutPrefix(key, marksKey)
	if !ok || len(k) < 5 || k[len(k)-5] != 0 {
		return s, fmt.Errorf("malformed mark key %x", key)
	}
	n := len(k) - 5
	s.uid = stream.UID(k[:n])
	s.groups.From = stream.KeyGroup(binary.BigEndian.Uint16(k[n+1:]))
	s.groups.To = stream.KeyGroup(binary.BigEndian.Uint16(k[n+3:]))
	return s, nil
}

// meta is what a base says about itself.
type meta struct {
	origin origin
	names  []keyed.Name
	marks  map[storeID]mark
	moving bool
}

var errNoMeta = errors.New("it does not say what it is")

func readMeta(r pebble.Reader) (m meta, err error) {
	if err := getJSON(r, originKey, &m.origin); err != nil {
		return m, err
	}
	if err := getJSON(r, namesKey, &m.names); err != nil {
		return m, err
	}
	var x bool
	switch err := getJSON(r, movingKey, &x); {
	case err == nil:
		m.moving = true
	case !errors.Is(err, errNoMeta):
		return m, err
	}
	m.marks = map[storeID]mark{}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: marksKey, UpperBound: marksEnd})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		id, err := parseStoreID(it.Key())
		if err != nil {
			return m, err
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return m, err
		}
		var k mark
		if err := json.Unmarshal(v, &k); err != nil {
			return m, err
		}
		m.marks[id] = k
	}
	return m, it.Error()
}

func getJSON(r pebble.Reader, key []byte, v any) error {
	b, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return errNoMeta
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	return json.Unmarshal(b, v)
}

func setJSON(w pebble.Writer, key []byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Set(key, b, nil)
}

// settleMarks makes the marks of a base whose key groups have moved those of the
// stores that hold them now. Nothing was applied since the restore.
func (b *Backend) settleMarks(base *base) {
	marks := map[storeID]mark{}
	for _, t := range b.tiers {
		if k, ok := base.meta.marks[t.id]; ok {
			marks[t.id] = k
		}
		if t.moved != nil {
			marks[t.id] = *t.moved
		}
	}
	base.meta.marks, base.meta.moving = marks, false
}

// writeMarks replaces all marks, and ends the time in which they mean nothing.
func writeMarks(batch *pebble.Batch, marks map[storeID]mark) error {
	if err := batch.DeleteRange(marksKey, marksEnd, nil); err != nil {
		return err
	}
	for id, m := range marks {
		if err := setJSON(batch, id.key(), m); err != nil {
			return err
		}
	}
	return batch.Delete(movingKey, nil)
}
