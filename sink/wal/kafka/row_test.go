package kafka

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"etl/sink/kafkatxn"
	"etl/stream"
)

// A row comes out of the log as it went in: null is not empty, headers keep order and
// duplicates, times before 1970 and none at all stay.
func TestRowRoundTrip(t *testing.T) {
	maybe := rapid.OneOf(rapid.Just[[]byte](nil), rapid.SliceOf(rapid.Byte()))
	rapid.Check(t, func(t *rapid.T) {
		row := kafkatxn.Row{Topic: rapid.StringMatching("[a-z.]{1,20}").Draw(t, "topic"), Key: maybe.Draw(t, "key"), Value: maybe.Draw(t, "value"), Partition: rapid.Int32Range(-1, 1<<31-1).Draw(t, "partition")}
		for range rapid.IntRange(0, 4).Draw(t, "headers") {
			row.Headers = append(row.Headers, stream.Header{Key: rapid.String().Draw(t, "name"), Value: maybe.Draw(t, "header")})
		}
		at := rapid.Int64Range(-1<<50, 1<<50).Draw(t, "time")
		k, err := readRow(appendRow(nil, &row, at))
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
		if k.Topic != row.Topic || k.Partition != row.Partition || k.Timestamp.UnixMilli() != at || !same(k.Key, row.Key) || !same(k.Value, row.Value) || len(k.Headers) != len(row.Headers) {
			t.Fatalf("%+v", k)
		}
		for i, h := range k.Headers {
			if h.Key != row.Headers[i].Key || !same(h.Value, row.Headers[i].Value) {
				t.Fatalf("header %d: %+v", i, h)
			}
		}
	})
}

func FuzzReadRow(f *testing.F) {
	f.Add(appendRow(nil, &kafkatxn.Row{Topic: "t", Key: []byte("k"), Headers: []stream.Header{{Key: "h"}}, Partition: -1}, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := readRow(b)
		if err == nil && (k.Topic == "" || k.Partition < -1) {
			t.Errorf("%+v", k)
		}
	})
}
