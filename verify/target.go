package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/expr/jsondoc"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// target is a sink topic, or a place beside Kafka: the rows found in it, and what they have to be.
type target struct {
	id, topic string
	conn      kafkaconn.Config
	feeds     []*feed
	keyed     []*keyedRows // one for each feed from an aggregate
	place     place        // of a sink that writes no topic
	// opaque says why rows cannot be told apart; "" when they can.
	opaque string

	rows  arena[row]
	plain []int32 // rows of no aggregate
	// appendTime says that the topic replaces the time of its rows.
	appendTime bool
	hash       hasher
	doc        jsondoc.Doc

	expected arena[expected]
	seen     streams
	bounds   []bounds
	scanned  []scanned
	sums     []uint64 // of each partition, over what was emitted
	res      SinkResult
	result   *Result
	// keysSeen counts rows with a key, misplaced those of them that do not lie where
	// the hash of the key puts them.
	keysSeen, misplaced int64
}

// row is a row of a sink.
type row struct {
	hash       uint64
	ts, offset int64
	partition  int32
	prev       int32 // the row before it of the same key, -1 for none
	value      int32 // in keyedRows.values, for rows written at a checkpoint
}

// expected is a row that a record without an aggregate on its way must give.
type expected struct {
	hash       uint64
	ts, offset int64 // offset of the record
	stream     uint16
}

// keyedRows are the rows of an aggregate in a target, by key.
type keyedRows struct {
	feed *feed
	agg  *aggregate
	// byKey: the key is read off the row's key, in text; else off fields of the
	// value, in canonical form.
	byKey bool
	// placed: expressions behind the aggregate see where the last input came from.
	placed bool
	ids    map[string]int32
	values arena[[]byte]
	last   []int32
	count  []int32
	// running checks a plain count, for an aggregate whose inputs are not known.
	running *RunningCounts
	counted string // the field that holds the count
}

// prepare decides how rows are told apart.
func (t *target) prepare(r *Result) {
	t.result, t.res.Topic = r, t.topic
	for i, f := range t.feeds {
		if f.from.agg == nil {
			if len(t.feeds) > 1 {
				t.distinct(i)
			}
			continue
		}
		k := &keyedRows{feed: f, agg: f.from.agg, ids: map[string]int32{}}
		k.placed = f.seesPlace()
		t.keyed = append(t.keyed, k)
		if why := k.locate(); why != "" {
			t.opaque = why
		}
		if len(t.feeds) > 1 {
			t.distinct(i)
		}
	}
	t.once()
	if t.place != nil && t.place.unordered() != "" {
		t.putInOrder()
	}
}

// once makes t opaque when an aggregate reaches it on two ways: each of its updates
// gives rows on both, whose order is not known.
func (t *target) once() {
	for i, k := range t.keyed {
		k.nest()
		for _, other := range t.keyed[:i] {
			if other.agg == k.agg {
				t.opaque = fmt.Sprintf("%s reaches the topic on two ways", k.agg.name)
			}
		}
	}
}

// distinct makes t opaque when the rows of feed i look like those of another one.
func (t *target) distinct(i int) {
	for j, g := range t.feeds {
		if i == j || t.feeds[i].from.agg == nil && g.from.agg == nil {
			continue
		}
		f := t.feeds[i]
		if f.shape == nil || g.shape == nil || slices.Equal(f.shape, g.shape) {
			t.opaque = fmt.Sprintf("rows of %s and of %s cannot be told apart", f, g)
		}
	}
}

// locate finds where a row holds the key of its aggregate.
func (k *keyedRows) locate() string {
	sink := k.feed.to.sink
	switch {
	case sink.rows != nil && !sink.rows.showsKeys(k.feed.shown[:len(k.agg.keys)]):
	case !slices.Contains(k.feed.shown[:len(k.agg.keys)], ""):
		return ""
	case k.keyIsKey():
		k.byKey = true
		return ""
	}
	return fmt.Sprintf("the rows of %s do not show the key of %s", sink.name, k.agg.name)
}

// keyIsKey reports whether the row's key is the key of the aggregate.
func (k *keyedRows) keyIsKey() bool {
	sink, key := k.feed.to.sink, k.feed.carried[0]
	if len(k.agg.keys) != 1 || sink.key == nil || key == "" {
		return false
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(sink.key.Source()), "this.")
	return ok && (name == key || sink.alias(name) == key)
}

// add takes a row of the topic.
func (t *target) add(r *kgo.Record) {
	if r.Attrs.TimestampType() == 1 {
		t.appendTime = true
	}
	hash := t.hash.row(r.Key, r.Value, kafkaconn.StreamHeaders(r.Headers))
	t.sums[r.Partition] += mix(hash ^ mix(uint64(r.Offset)))
	t.res.Rows++
	if r.Key != nil {
		t.keysSeen++
		if int(murmur2(r.Key)&0x7fffffff)%len(t.bounds) != int(r.Partition) {
			t.misplaced++
		}
	}
	if t.opaque != "" {
		return
	}
	i := t.rows.add(row{hash: hash, ts: r.Timestamp.UnixMilli(), offset: r.Offset, partition: r.Partition, prev: -1})
	if k, ident := t.owner(r); k != nil {
		k.add(t, i, ident, r)
		return
	}
	t.plain = append(t.plain, i)
}

// addDocument takes a row of a place.
func (t *target) addDocument(value []byte, headers []kgo.RecordHeader, partition int32, offset int64) {
	t.add(&kgo.Record{Value: value, Headers: headers, Partition: partition, Offset: offset})
}

// owner returns the aggregate that a row comes from, and its key; nil when it comes
// from none, or cannot be read.
func (t *target) owner(r *kgo.Record) (*keyedRows, string) {
	if len(t.keyed) == 0 {
		return nil, ""
	}
	if len(t.feeds) == 1 && t.keyed[0].byKey {
		return t.keyed[0], string(r.Key)
	}
	if r.Value == nil || t.doc.Parse(r.Value, jsondoc.Lenient) != nil || t.doc.Kind(0) != jsondoc.Object {
		return nil, ""
	}
	for _, k := range t.keyed {
		if len(t.feeds) > 1 && !t.hasShape(k.feed.shape) {
			continue
		}
		if k.byKey {
			return k, string(r.Key)
		}
		if ident, ok := t.group(k); ok {
			return k, ident
		}
	}
	return nil, ""
}

func (t *target) hasShape(shape []string) bool {
	if t.doc.Len(0) != len(shape) {
		return false
	}
	n, ok := t.doc.First(0)
	for i := 0; ok; i++ {
		if text, escaped := t.doc.Text(t.doc.Name(n)); escaped || string(text) != shape[i] {
			return false
		}
		n, ok = t.doc.Next(0, n)
	}
	return true
}

// group reads the canonical key off the value.
func (t *target) group(k *keyedRows) (string, bool) {
	var out []byte
	for i, name := range k.feed.shown[:len(k.agg.keys)] {
		n, ok := t.doc.Field(0, name)
		if !ok {
			return "", false
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.doc.Raw(n)...)
	}
	if len(k.agg.keys) > 1 {
		return "[" + string(out) + "]", true
	}
	return string(out), true
}

// add puts a row behind those of its key.
func (k *keyedRows) add(t *target, i int32, ident string, r *kgo.Record) {
	id, ok := k.ids[ident]
	if !ok {
		id = int32(len(k.last))
		k.ids[ident] = id
		k.last, k.count = append(k.last, -1), append(k.count, 0)
	}
	row := t.rows.at(i)
	row.prev = k.last[id]
	if !k.agg.onChange {
		row.value = k.values.add(slices.Clone(r.Value))
	}
	k.last[id] = i
	k.count[id]++
	if k.running != nil {
		k.run(t, ident, r)
	}
}

// ident is what a row shows of a canonical key.
func (k *keyedRows) ident(group string) string {
	if !k.byKey || len(group) == 0 || group[0] != '"' {
		return group
	}
	return string(jsondoc.Unescape(nil, []byte(group[1:len(group)-1])))
}

// expect takes what a record gives behind a feed without an aggregate.
func (t *target) expect(f *feed, rec *stream.Record) {
	key, value, headers, ok := f.to.sink.row(rec)
	if !ok || t.opaque != "" {
		return
	}
	t.expected.add(expected{hash: t.hash.row(key, value, headers), ts: rec.Timestamp, offset: rec.Offset, stream: t.seen.of(f, rec)})
}
