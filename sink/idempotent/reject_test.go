package idempotent

import (
	"reflect"
	"testing"

	"etl/stream"
)

// What a checkpoint keeps of a rejected row is what its dead letter needs: null and empty
// stay different, and a result of an aggregate does not become a record.
func TestRejectsRoundTrip(t *testing.T) {
	for _, r := range []stream.Record{
		{Topic: "in", Partition: 3, Offset: 7, Timestamp: 5, Key: []byte{}, Value: []byte("v"), Headers: []stream.Header{{Key: "h"}, {Key: "h", Value: []byte{}}}, Pos: -1},
		{Topic: "in", Partition: 1, Offset: 9, Timestamp: -1, Value: []byte(`{"n":1}`), Made: true, Pos: -1},
	} {
		want := Rejected{Record: r, Code: "postgres.row", Message: "value too long"}
		hs, err := kept{Rejects: []rejected{store(want)}}.encode()
		if err != nil || len(hs) != 1 {
			t.Fatal(hs, err)
		}
		k, err := decode(hs[0])
		if err != nil || len(k.Rejects) != 1 {
			t.Fatal(k, err)
		}
		if got := k.Rejects[0].load(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v", want, got)
		}
	}
}
