package sqltxn

import (
	"testing"

	"etl/stream"
)

// Every frame that a writer can make is taken from a log.
func TestFramesOfWriters(t *testing.T) {
	l := &Layout{Columns: []string{"a", "b"}, Topics: []string{"t", ""}}
	for i := range 8 {
		row := &Row{tuple: []byte("\x00\x02\x00\x00\x00\x01k\xff\xff\xff\xff"), deletes: i&1 != 0}
		rec := &stream.Record{Topic: "t", Made: i&4 != 0, Headers: []stream.Header{{Key: "h"}}}
		if err := l.checkFrames(appendFrame(nil, row, uint16(i&1), rec, i&2 != 0), 1); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// Frames that are not whole are refused before a field of them is used; frames that pass
// can be walked, copied and asked for their source without running out of their bytes.
func FuzzFrames(f *testing.F) {
	row := &Row{tuple: []byte("\x00\x02\x00\x00\x00\x01k\xff\xff\xff\xff")}
	rec := &stream.Record{Topic: "t", Offset: 3, Key: []byte("k"), Headers: []stream.Header{{Key: "h"}}}
	f.Add(appendFrame(appendFrame(nil, row, 0, rec, true), row, 1, rec, false), 2)
	f.Add([]byte{0, 0, 0, 1, 9}, 1)
	l := &Layout{Columns: []string{"a", "b"}, Topics: []string{"t", "u"}}
	f.Fuzz(func(t *testing.T, data []byte, rows int) {
		if l.checkFrames(data, rows) != nil {
			return
		}
		for _, at := range walk(nil, data, max(rows, 0)) {
			fr := frameAt(data, at)
			fr.source(nil, l.Topics)
			_ = fr.toRecord(l.Topics)
			if end := fieldsEnd(fr.tuple()[2:], 2); end != len(fr.tuple())-2 {
				t.Fatalf("the fields end at %d of %d", end, len(fr.tuple())-2)
			}
		}
	})
}
