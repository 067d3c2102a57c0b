package transform

import (
	"testing"

	"pgregory.net/rapid"

	"etl/stream"
)

// What AppendLetter writes, ReadLetter reads: null stays null, empty stays empty, and
// bytes that are no text come back.
func TestReadLetter(t *testing.T) {
	text, blob := rapid.StringMatching(`[a-z."\\]{1,8}`), rapid.SampledFrom([][]byte{nil, {}, []byte("plain"), []byte("\xff\x00"), []byte("a\x00b"), []byte("\"é\\\n")})
	rapid.Check(t, func(t *rapid.T) {
		in := stream.Letter{Component: stream.UID(text.Draw(t, "component")), Code: text.Draw(t, "code"), Message: text.Draw(t, "message")}
		in.Record = stream.Record{Key: blob.Draw(t, "key"), Value: blob.Draw(t, "value"), Made: rapid.Bool().Draw(t, "made"), Pos: -1, Partition: -1, Offset: -1, Timestamp: rapid.Int64Min(-1).Draw(t, "timestamp")}
		if rapid.Bool().Draw(t, "known") {
			in.Topic, in.Partition, in.Offset = text.Draw(t, "topic"), rapid.Int32Min(0).Draw(t, "partition"), rapid.Int64Min(0).Draw(t, "offset")
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			in.Headers = append(in.Headers, stream.Header{Key: text.Draw(t, "header"), Value: blob.Draw(t, "header value")})
		}
		doc := AppendLetter(nil, &in)
		out, err := ReadLetter(doc, nil)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if string(AppendLetter(nil, &out)) != string(doc) || (out.Value == nil) != (in.Value == nil) || (out.Key == nil) != (in.Key == nil) || out.Partition != in.Partition || out.Offset != in.Offset {
			t.Fatalf("%s became %+v", doc, out)
		}
		whole, err := ReadLetterIn([]byte(`{"other":1,"letter":`+string(doc)+`}`), "letter")
		if err != nil || string(AppendLetter(nil, &whole)) != string(doc) {
			t.Fatalf("as a member: %s became %+v, %v", doc, whole, err)
		}
	})
}

// Members under other names count only when they are named, and what lacks component or
// code is no letter.
func TestReadLetterNames(t *testing.T) {
	doc := []byte(`{"by":"in","why":"json.syntax","value":"unnamed","v":"YQ==","topic":null}`)
	l, err := ReadLetter(doc, map[string]string{"component": "by", "code": "why", "value_base64": "v"})
	if err != nil || l.Component != "in" || l.Code != "json.syntax" || string(l.Value) != "a" || l.Topic != "" || l.Partition != -1 || l.Offset != -1 || l.Timestamp != -1 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, doc := range []string{``, `null`, `[]`, `{}`, `{"component":"in"}`, `{"component":"in","code":1}`, `{"component":"in","code":"x","value_base64":"?"}`,
		`{"component":"in","code":"x","headers":[{"key":"h","value_base64":"?"}]}`, `{"component":"in","code":"x","partition":"1"}`} {
		if l, err := ReadLetter([]byte(doc), nil); err == nil {
			t.Errorf("%s is %+v", doc, l)
		}
	}
}
