package kafka

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/sink/kafkatxn"
	"etl/stream"
)

// odd are records that pipelines like to change on their way.
func odd() []*kgo.Record {
	h := func(kv ...any) (hs []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			v, _ := kv[i+1].([]byte)
			hs = append(hs, kgo.RecordHeader{Key: kv[i].(string), Value: v})
		}
		return hs
	}
	at := time.UnixMilli
	return []*kgo.Record{
		{Key: nil, Value: nil, Timestamp: at(1)},
		{Key: []byte{}, Value: []byte{}, Timestamp: at(0)},
		{Key: nil, Value: []byte{}, Timestamp: at(-1)},
		{Key: []byte{}, Value: nil, Timestamp: at(1795978848215)},
		{Key: []byte("k"), Value: []byte("v"), Headers: h("b", []byte("1"), "a", []byte("2"), "b", nil, "", []byte{}, "b", []byte("1")), Timestamp: at(2)},
		{Key: []byte{0, 0xff}, Value: []byte("\xc3\x28 not utf-8"), Headers: h("\xff", []byte{0}), Timestamp: time.Now().Add(30 * time.Minute)},
		{Key: bytes.Repeat([]byte("k"), 1000), Value: bytes.Repeat([]byte("v"), 500_000), Timestamp: at(kafkatxn.MinTimestamp)},
	}
}

func same1(a, b *kgo.Record) string {
	null := func(x, y []byte) bool { return bytes.Equal(x, y) && (x == nil) == (y == nil) }
	switch {
	case !null(a.Key, b.Key):
		return fmt.Sprintf("key %q became %q", a.Key, b.Key)
	case !null(a.Value, b.Value):
		return fmt.Sprintf("value of %d bytes (null %v) became %d (null %v)", len(a.Value), a.Value == nil, len(b.Value), b.Value == nil)
	case a.Timestamp.UnixMilli() != b.Timestamp.UnixMilli():
		return fmt.Sprintf("time %d became %d", a.Timestamp.UnixMilli(), b.Timestamp.UnixMilli())
	case len(a.Headers) != len(b.Headers):
		return fmt.Sprintf("%d headers became %d", len(a.Headers), len(b.Headers))
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !null(a.Headers[i].Value, b.Headers[i].Value) {
			return fmt.Sprintf("header %d: %v became %v", i, a.Headers[i], b.Headers[i])
		}
	}
	return ""
}

// What is fetched from one topic and passed through arrives unchanged in the other:
// as the very records, as copies, and mixed.
func TestPassThroughKeepsRecords(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.tasks = 1
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			j.cfg.Compression = codec
			j.start()
			before := len(j.read())
			want := odd()
			j.passThrough(want)
			j.checkpoint()
			if len(j.rejects.errs) > 0 {
				t.Fatal(j.rejects.errs)
			}
			got := j.read()
			if len(got)-before != 2*len(want) {
				t.Fatalf("%s: %d rows, want %d", codec, len(got)-before, 2*len(want))
			}
			for i, w := range want {
				n := 0
				for _, g := range got {
					if same1(w, g) == "" {
						n++
					}
				}
				if n < 2 {
					t.Errorf("%s: record %d arrived %d times unchanged: %q", codec, i, n, nearest(w, got))
				}
			}
			j.crash()
		}
	})
}

// passThrough writes records twice: as fetched ones, and as copies.
func (j *job) passThrough(recs []*kgo.Record) {
	var fetched []*kgo.Record
	for _, r := range recs {
		c := *r
		fetched = append(fetched, &c)
	}
	b := stream.NewOriginBatch(nil, kafkaconn.NewFetched(fetched), func(b *stream.Batch) { b.Origin().(*kafkaconn.Fetched).Recycle() })
	for i, r := range recs {
		s := stream.Record{Key: r.Key, Value: r.Value, Headers: kafkaconn.StreamHeaders(r.Headers), Timestamp: r.Timestamp.UnixMilli(), Pos: int32(i)}
		b.Append(s)
		s.Pos = -1
		b.Append(s)
	}
	j.must(j.writers[0].Write(j.t.Context(), b, &j.rejects))
}

// A changed record is never written as the one it was fetched as, even by an operator
// that forgot to say so.
func TestChangedRecordIsCopied(t *testing.T) {
	j := fakeJob(t)
	j.tasks = 1
	j.start()
	orig := []*kgo.Record{{Key: []byte("k"), Value: []byte("old"), Timestamp: time.UnixMilli(5)}}
	b := stream.NewOriginBatch(nil, kafkaconn.NewFetched(orig), func(b *stream.Batch) { b.Origin().(*kafkaconn.Fetched).Recycle() })
	b.Append(stream.Record{Key: orig[0].Key, Value: []byte("new"), Timestamp: 9, Pos: 0})
	b.Append(stream.Record{Key: orig[0].Key, Value: orig[0].Value, Timestamp: 7, Pos: 0}) // another time: the fetched record takes it
	b.Append(stream.Record{Key: orig[0].Key, Value: orig[0].Value, Timestamp: 8, Pos: 0}) // twice: the second is a copy
	j.must(j.writers[0].Write(t.Context(), b, &j.rejects))
	j.checkpoint()
	var got []string
	for _, r := range j.read() {
		got = append(got, fmt.Sprintf("%s@%d", r.Value, r.Timestamp.UnixMilli()))
	}
	if fmt.Sprint(got) != "[new@9 old@7 old@8]" {
		t.Errorf("%v", got)
	}
}

func nearest(w *kgo.Record, got []*kgo.Record) (why []string) {
	for _, g := range got {
		if bytes.Equal(w.Key, g.Key) && bytes.Equal(w.Value, g.Value) {
			why = append(why, same1(w, g))
		}
	}
	return why
}

// A topic has its own idea of what time it is: a row it would refuse is rejected, and the
// attempt goes on.
func TestTopicsLimitsOfTime(t *testing.T) {
	b := kafkatest.Shared(t)
	for name, tc := range map[string]struct {
		setting string
		ts      time.Duration // from now
		taken   bool
	}{
		"default, tomorrow":     {"message.timestamp.type=CreateTime", 24 * time.Hour, false},
		"default, soon":         {"message.timestamp.type=CreateTime", 50 * time.Minute, true},
		"default, long ago":     {"message.timestamp.type=CreateTime", -100 * 365 * 24 * time.Hour, true},
		"not long ago only":     {"message.timestamp.before.max.ms=60000", -2 * time.Minute, false},
		"stamped by the broker": {"message.timestamp.type=LogAppendTime", 24 * time.Hour, true},
		"tomorrow is fine, too": {"message.timestamp.after.max.ms=172800000", 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, b.Seeds(), b.Topic(t, 1, tc.setting))
			j.tasks = 1
			j.start()
			batch := stream.NewBatch(nil)
			batch.Append(stream.Record{Value: []byte("0"), Timestamp: time.Now().Add(tc.ts).UnixMilli(), Pos: -1})
			batch.Append(stream.Record{Value: []byte("1"), Timestamp: kafkatxn.NoTimestamp, Pos: -1})
			j.must(j.writers[0].Write(t.Context(), batch, &j.rejects))
			j.checkpoint()
			want := 1
			if tc.taken {
				want = 2
			}
			if n := len(j.read()); n != want || len(j.rejects.errs) != 2-want {
				t.Errorf("%d rows, %v", n, j.rejects.errs)
			}
		})
	}
}

// Times the client would write as other times are rejected instead.
func TestImpossibleTimestampIsRejected(t *testing.T) {
	j := fakeJob(t)
	j.tasks = 1
	j.start()
	b := stream.NewBatch(nil)
	for _, ts := range []int64{253402300799000, -253402300799000, kafkatxn.MaxTimestamp + 1, kafkatxn.MinTimestamp - 1} {
		b.Append(stream.Record{Value: []byte("v"), Timestamp: ts, Pos: -1})
	}
	j.must(j.writers[0].Write(t.Context(), b, &j.rejects))
	if len(j.rejects.errs) != 4 || stream.CodeOf(j.rejects.errs[0]) != "kafka.timestamp_out_of_range" {
		t.Errorf("%v", j.rejects.errs)
	}
}
