package transform

import (
	"encoding/json"
	"errors"
	"testing"

	"etl/expr"
	"etl/stream"
)

// TestLetters: the fields of dead letters, and their types.
func TestLetters(t *testing.T) {
	b := stream.NewBatch(stream.LetterSchema)
	for i, r := range []stream.Record{
		{Topic: "t", Partition: 2, Offset: 9, Timestamp: 1234, Key: []byte("kä"), Value: []byte(`{"a":`), Headers: []stream.Header{{Key: "h", Value: []byte("x")}, {Key: "h"}}},
		{Topic: "t", Timestamp: -1, Key: nil, Value: []byte{}},
		{Topic: "t", Timestamp: -1, Key: []byte("a\x00b"), Value: []byte("\xff\xfe")},
		{Made: true, Value: []byte(`{"sum":1}`)},
	} {
		l := stream.NewLetter(&r, "c", stream.Errorf(stream.Failed, "x.y", "do", "", "reason %d", i))
		l.AppendTo(b)
	}
	b.Append(stream.Record{Topic: "in", Partition: 1, Value: []byte("no letter")})
	out := &fakeOutput{}
	op := opened(t, Letters{}.New(), nil)
	if err := op.Process(t.Context(), b, out); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.batches[0].Records {
		if !json.Valid(r.Value) {
			t.Errorf("%s is no JSON", r.Value)
		}
		if r.Orig == nil || r.Made {
			t.Error("a letter that is rejected in turn is not at hand")
		}
	}
	b.Release() // what was emitted needs no other reference
	equal(t, "letters", out.take(),
		`{"topic":"t","partition":2,"offset":9,"timestamp":1234,"component":"c","code":"x.y","message":"do: reason 0","made":false,"key":"kä","key_base64":null,"value":"{\"a\":","value_base64":null,"headers":[{"key":"h","value":"x","value_base64":null},{"key":"h","value":null,"value_base64":null}]}`,
		`{"topic":"t","partition":0,"offset":0,"timestamp":null,"component":"c","code":"x.y","message":"do: reason 1","made":false,"key":null,"key_base64":null,"value":"","value_base64":null,"headers":[]}`,
		`{"topic":"t","partition":0,"offset":0,"timestamp":null,"component":"c","code":"x.y","message":"do: reason 2","made":false,"key":null,"key_base64":"YQBi","value":null,"value_base64":"//4=","headers":[]}`,
		`{"topic":null,"partition":null,"offset":null,"timestamp":0,"component":"c","code":"x.y","message":"do: reason 3","made":true,"key":null,"key_base64":null,"value":"{\"sum\":1}","value_base64":null,"headers":[]}`)
	equal(t, "rejected", out.rejected, "0 dead_letter.headers")
	schema, _ := Letters{}.OutputSchema(nil)
	for _, src := range []string{"this.offset + 1", "this.code + this.message", "this.headers[0].value", "not this.made"} {
		compile(t, src, expr.Env{This: schema})
	}
}

// TestOriginals: whatever maps make of a record, what was read is at hand; of a result
// of several it is not.
func TestOriginals(t *testing.T) {
	b := input(`{"a":[1,2]}`)
	out := &fakeOutput{}
	each := FlatMap{Each: compile(t, "this.a", expr.Env{Want: stream.List})}
	if err := opened(t, each.New(), nil).Process(t.Context(), b, out); err != nil {
		t.Fatal(err)
	}
	b.Release()
	first := out.batches[0]
	again := MapFunc(nil, func(dst []byte, r *stream.Record) ([]byte, error) {
		return append(append(dst, "n"...), r.Value...), nil
	})
	twice := FlatMapFunc(nil, func(r *stream.Record, emit func(stream.Record)) error {
		d := r.Derived()
		d.Value = r.Value
		emit(d)
		return nil
	})
	for _, op := range []Operator{again, twice} {
		next := &fakeOutput{}
		if err := op.Process(t.Context(), first, next); err != nil {
			t.Fatal(err)
		}
		for i := range next.batches[0].Records {
			r := &next.batches[0].Records[i]
			l := stream.NewLetter(r, "c", errors.New("no"))
			if l.Made || string(l.Value) != `{"a":[1,2]}` || string(l.Key) != "k" || len(l.Headers) != 2 || l.Offset != 0 || l.Timestamp != 1000 {
				t.Errorf("the letter of %q is %+v", r.Value, l)
			}
		}
		next.take()
	}
	out.take()
}
