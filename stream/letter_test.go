package stream

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLetterRoundTrip: a letter that is written as a record is read again as it was,
// null and empty kept apart, and the headers of the record left alone, even those of
// an earlier letter.
func TestLetterRoundTrip(t *testing.T) {
	r := Record{Key: []byte{}, Value: nil, Timestamp: 1700000000123, Topic: "t", Partition: 3, Offset: 1 << 40, Pos: 7,
		Headers: []Header{{"h", []byte("1")}, {"h", nil}, {letterTopic, []byte("old")}, {letterCode, []byte("old.code")}}}
	l := NewLetter(&r, "map", Errorf(Failed, "expr.null", "evaluate", "t/3@1", "this.a is null"))
	b := NewBatch(LetterSchema)
	defer b.Release()
	l.AppendTo(b)
	got := &b.Records[0]
	if got.Timestamp != -1 || got.Pos != -1 || got.Key == nil || got.Value != nil {
		t.Errorf("the record is %+v", got)
	}
	back, ok := OpenLetter(got)
	back.Record.Headers = append([]Header(nil), back.Headers...)
	if !ok || !reflect.DeepEqual(back, l) || l.Code != "expr.null" || l.Message != "evaluate: this.a is null" {
		t.Errorf("read %+v, %v\nwant %+v", back, ok, l)
	}
}

// TestLetterOfChangedRecord: a letter holds what was read, and one of several records
// says so.
func TestLetterOfChangedRecord(t *testing.T) {
	read := Record{Key: []byte("k"), Value: []byte("as it was read"), Topic: "t", Partition: 1, Offset: 2, Timestamp: 5}
	changed := read
	changed.Value, changed.Orig = []byte("changed"), &read
	if l := NewLetter(&changed, "x", errors.New("no")); string(l.Value) != "as it was read" || l.Made || l.Code != CodeRejected {
		t.Errorf("%+v", l)
	}
	b := NewBatch(nil)
	defer b.Release()
	b.AppendCopy(&changed) // what was read stays behind
	b.AppendWhole(&changed)
	read.Value[0] = 'A'
	if l := NewLetter(&b.Records[0], "x", errors.New("no")); string(l.Value) != "changed" || !l.Made {
		t.Errorf("%+v", l)
	}
	if l := NewLetter(&b.Records[1], "x", errors.New("no")); string(l.Value) != "as it was read" || l.Made {
		t.Errorf("%+v", l)
	}
	sum := read.Derived()
	sum.Topic = ""
	l := NewLetter(&sum, "sum", errors.New("no"))
	l.AppendTo(b)
	back, ok := OpenLetter(&b.Records[2])
	if !ok || !back.Made || back.Topic != "" || back.Partition != -1 || back.Offset != -1 {
		t.Errorf("%+v %v", back, ok)
	}
}

// TestNoLetter: a record without all the headers is none, nor one with broken numbers.
func TestNoLetter(t *testing.T) {
	b := NewBatch(nil)
	defer b.Release()
	l := NewLetter(&Record{Topic: "t"}, "x", errors.New(strings.Repeat("ö", 2*maxLetterMessage)))
	if len(l.Message) > maxLetterMessage || !utf8.ValidString(l.Message) {
		t.Errorf("a message of %d bytes", len(l.Message))
	}
	l.AppendTo(b)
	r := b.Records[0]
	if _, ok := OpenLetter(&r); !ok {
		t.Fatal("it is a letter")
	}
	for i := range r.Headers {
		cut := r
		cut.Headers = append(append([]Header(nil), r.Headers[:i]...), r.Headers[i+1:]...)
		if _, ok := OpenLetter(&cut); ok {
			t.Errorf("without %s it is still a letter", r.Headers[i].Key)
		}
	}
	bad := r
	bad.Headers = append([]Header(nil), r.Headers...)
	bad.Headers[2].Value = []byte("12x")
	if _, ok := OpenLetter(&bad); ok {
		t.Error("a letter without an offset")
	}
}
