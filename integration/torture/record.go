package torture

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind is what a job does.
type Kind string

// The kinds of jobs.
const (
	// Pass passes records through, byte for byte, in order.
	Pass Kind = "pass"
	// Count counts per key and adds up a number, and emits every change.
	Count Kind = "count"
	// Fan filters, maps and splits records, into two sinks.
	Fan Kind = "fan"
)

// Kinds are all of them.
var Kinds = []Kind{Pass, Count, Fan}

// place is where a record of the input stands: its partition, and its number there
// as the harness gave it. Both are in the record itself.
type place struct {
	part int32
	seq  int64
}

func (p place) String() string { return fmt.Sprintf("%d/%d", p.part, p.seq) }

// number packs a place into one number above 0, which sums can be made of.
func (p place) number() int64 { return p.seq<<2 | int64(p.part) + 1 }

func placeOf(n int64) place { return place{part: int32(n&3) - 1, seq: n >> 2} }

// payload is in every value of the input: it must never be seen in a log.
const payload = "canary-of-the-payload"

// maker makes records: what one is follows from the seed and its place alone.
type maker struct {
	kind Kind
	seed uint64
	keys int
	// spread gives the records the keys in turn instead of drawing them.
	spread bool
}

// make returns the record of a place, without topic and offset.
func (m *maker) make(p place) *kgo.Record {
	r := rand.New(rand.NewPCG(m.seed, uint64(p.number())))
	rec := &kgo.Record{Partition: p.part, Timestamp: time.UnixMilli(1_700_000_000_000 + p.seq)}
	if m.kind == Pass {
		return m.bytes(rec, p, r)
	}
	key := m.key(r)
	if m.spread {
		key = "k" + strconv.FormatInt((p.seq*partitions+int64(p.part))%int64(m.keys), 10)
	}
	rec.Key = []byte(key)
	switch m.kind {
	case Count:
		rec.Value = fmt.Appendf(nil, `{"k":%q,"n":%d,"x":%q}`, key, p.number(), payload)
	case Fan:
		rec.Value = fmt.Appendf(nil, `{"p":%d,"s":%d,"x":%q,"tags":[%s]}`, p.part, p.seq, payload, strings.Join(m.tags(r), ","))
	}
	return rec
}

// key draws a key: every other one is the hot one of four.
func (m *maker) key(r *rand.Rand) string {
	n := r.IntN(m.keys)
	if r.IntN(2) == 0 {
		n = r.IntN(4)
	}
	return "k" + strconv.Itoa(n)
}

func (m *maker) tags(r *rand.Rand) (tags []string) {
	for range r.IntN(5) {
		tags = append(tags, strconv.Quote("t"+strconv.Itoa(r.IntN(9))))
	}
	return tags
}

// bytes makes a record of everything that must come out as it went in: null and
// empty, headers twice, bytes that are no text.
func (m *maker) bytes(rec *kgo.Record, p place, r *rand.Rand) *kgo.Record {
	rec.Headers = []kgo.RecordHeader{{Key: "id", Value: []byte(p.String())}, {Key: "h", Value: []byte{0, 0xff}}, {Key: "h"}}
	switch r.IntN(10) {
	case 0: // null
	case 1:
		rec.Key = []byte{}
	default:
		rec.Key = []byte(m.key(r))
	}
	switch r.IntN(10) {
	case 0: // null
	case 1:
		rec.Value = []byte{}
	default:
		rec.Value = append([]byte(payload), make([]byte, r.IntN(300))...)
		for i := len(payload); i < len(rec.Value); i++ {
			rec.Value[i] = byte(r.Uint32())
		}
	}
	return rec
}

// placeIn reads where a record of the input, or one that was passed through, stands.
func (m *maker) placeIn(rec *kgo.Record) (p place, err error) {
	switch m.kind {
	case Pass:
		if len(rec.Headers) == 0 || rec.Headers[0].Key != "id" {
			return p, fmt.Errorf("it has no header id")
		}
		_, err = fmt.Sscanf(string(rec.Headers[0].Value), "%d/%d", &p.part, &p.seq)
	case Count:
		var n int64
		_, rest, _ := strings.Cut(string(rec.Value), `"n":`)
		_, err = fmt.Sscanf(rest, "%d", &n)
		p = placeOf(n)
	case Fan:
		_, err = fmt.Sscanf(string(rec.Value), `{"p":%d,"s":%d`, &p.part, &p.seq)
	}
	return p, err
}
