package integration

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

const copying = common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}", compression: zstd }
`

// strange are records as no two systems treat them alike.
func strange() []*kgo.Record {
	h := func(kv ...string) (hs []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			hs = append(hs, kgo.RecordHeader{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return hs
	}
	now := time.Now().Truncate(time.Millisecond)
	return []*kgo.Record{
		{Key: []byte("a"), Value: []byte("plain"), Timestamp: now},
		{Key: nil, Value: []byte("key is null"), Timestamp: now},
		{Key: []byte{}, Value: []byte("key is empty"), Timestamp: now},
		{Key: []byte("a"), Value: nil, Timestamp: now},
		{Key: []byte("a"), Value: []byte{}, Timestamp: now},
		{Key: nil, Value: nil, Timestamp: now},
		{Key: []byte{0, 0xff, 0xfe, '\n', '"'}, Value: []byte{0xc3, 0x28, 0}, Timestamp: now},
		{Key: []byte("a"), Value: []byte("headers"), Headers: h("z", "1", "a", "2", "z", "1", "z", "3"), Timestamp: now},
		{Key: []byte("a"), Value: []byte("header values"), Headers: []kgo.RecordHeader{{Key: "null"}, {Key: "empty", Value: []byte{}}, {Key: "", Value: []byte("no key")}}, Timestamp: now},
		{Key: []byte("a"), Value: []byte("no time"), Timestamp: time.UnixMilli(-1)},
		{Key: []byte("a"), Value: []byte("1970"), Timestamp: time.UnixMilli(0).Add(time.Nanosecond)}, // the zero time means now
		{Key: []byte("a"), Value: []byte("far future"), Timestamp: time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Key: []byte(strings.Repeat("k", 1000)), Value: bytes.Repeat([]byte("v"), 300_000), Timestamp: now},
	}
}

// A record that passes through comes out as it went in: null is not empty, headers
// keep their order, duplicates and nulls, time stays what it was.
func TestFidelity(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	anyTime := "message.timestamp.after.max.ms=9223372036854775807"
	in, out := b.Topic(t, 1, anyTime), b.Topic(t, 1, anyTime)
	j := newJob(t, b, copying, "IN="+in, "OUT="+out)
	produce(t, b, in, strange()...)
	want := committed(t, b, in)[0]
	if len(want) != len(strange()) {
		t.Fatalf("the input has %d records", len(want))
	}
	r := j.start().running()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	got := committed(t, b, out)[0]
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		for _, d := range differences(want[i], got[i]) {
			t.Errorf("%.40q: %s", want[i].Value, d)
		}
	}
}

// differences says in what two records differ.
func differences(a, b *kgo.Record) (out []string) {
	differ := func(what string, a, b []byte) {
		if !bytes.Equal(a, b) || (a == nil) != (b == nil) {
			out = append(out, what)
		}
	}
	differ("key", a.Key, b.Key)
	differ("value", a.Value, b.Value)
	if !a.Timestamp.Equal(b.Timestamp) {
		out = append(out, "time: "+a.Timestamp.String()+" became "+b.Timestamp.String())
	}
	if len(a.Headers) != len(b.Headers) {
		return append(out, "number of headers")
	}
	for i, h := range a.Headers {
		differ("key of header", []byte(h.Key), []byte(b.Headers[i].Key))
		differ("value of header "+h.Key, h.Value, b.Headers[i].Value)
	}
	return out
}
