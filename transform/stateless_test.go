package transform

import (
	"context"
	"errors"
	"strings"
	"testing"

	"etl/expr"
	"etl/stream"
)

func TestFilter(t *testing.T) {
	op := opened(t, Filter{Where: compile(t, `this.n > 1`, expr.Env{Want: stream.Bool})}.New(), nil)
	values, rejected := run(t, op, input(`{"n":1}`, `{"n":2}`, `{"x":3}`, `{"n":3}`))
	equal(t, "passed", values, `{"n":2}`, `{"n":3}`)
	equal(t, "rejected", rejected, "2 "+expr.CodeNull)
}

// TestFilterKeepsTheRecord: what passes is the very record of the source's batch.
func TestFilterKeepsTheRecord(t *testing.T) {
	op := opened(t, Filter{Where: compile(t, `this.n > 1`, expr.Env{})}.New(), nil)
	for _, c := range []struct {
		in   []string
		same bool
	}{{[]string{`{"n":2}`, `{"n":3}`}, true}, {[]string{`{"n":1}`, `{"n":3}`}, false}} {
		b, out := input(c.in...), &fakeOutput{}
		if err := op.Process(context.Background(), b, out); err != nil {
			t.Fatal(err)
		}
		got := out.batches[0]
		if last := got.Records[len(got.Records)-1]; got.Origin() != "origin" || last.Pos != 1 || (got == b) != c.same {
			t.Errorf("origin %v, pos %d, passed on itself %v", got.Origin(), last.Pos, got == b)
		}
		out.take()
		b.Release()
	}
}

func TestDecode(t *testing.T) {
	schema := &stream.Schema{Format: stream.JSON}
	strict := opened(t, Decode{Schema: schema, Strict: true}.New(), nil)
	bad := []string{`{"a":1}`, `{"a":1,"a":2}`, "{", "null value", ``, "\"\xff\""}
	values, rejected := run(t, strict, input(bad...))
	equal(t, "passed", values, `{"a":1}`, "null value")
	equal(t, "rejected", rejected, "1 json.duplicate_name", "2 json.syntax", "4 json.empty", "5 json.invalid_utf8")
	_, rejected = run(t, opened(t, Decode{Schema: schema}.New(), nil), input(bad...))
	equal(t, "rejected leniently", rejected, "2 json.syntax", "4 json.empty")
	_, rejected = run(t, opened(t, Decode{Schema: &stream.Schema{Format: stream.Text}}.New(), nil), input("a\xff", "é"))
	equal(t, "rejected text", rejected, "0 text.invalid_utf8")
}

func fields(t testing.TB, env expr.Env, pairs ...string) (f []Field) {
	for i := 0; i < len(pairs); i += 2 {
		f = append(f, Field{pairs[i], compile(t, pairs[i+1], env)})
	}
	return f
}

func TestMap(t *testing.T) {
	m := Map{fields(t, expr.Env{}, "id", "this.id", "worth", "this.price * this.qty", "from", "meta.topic")}
	values, rejected := run(t, opened(t, m.New(), nil), input(`{"id":9007199254740993,"price":12.50,"qty":2}`, `{"id":1}`, "null value"))
	equal(t, "mapped", values, `{"id":9007199254740993,"worth":25.00,"from":"in"}`, "null value")
	equal(t, "rejected", rejected, "1 "+expr.CodeNull)
	schema, err := m.OutputSchema(nil)
	if err != nil || schema.Type.String() != "{id: any, worth: decimal, from: string}" {
		t.Errorf("schema %v, %v", schema, err)
	}
	m.Fields = append(m.Fields, m.Fields[0])
	if _, err := m.OutputSchema(nil); stream.CodeOf(err) != "map.duplicate_name" || stream.ClassOf(err) != stream.BadConfig {
		t.Errorf("two fields of one name: %v", err)
	}
}

// TestMapKeepsTheRest: key, headers (repeated ones, null and empty) and timestamp
// stay; the record is no longer the one that was read.
func TestMapKeepsTheRest(t *testing.T) {
	op := opened(t, MapFunc(nil, func(dst []byte, r *stream.Record) ([]byte, error) {
		if string(r.Value) == "empty" {
			return dst, nil
		}
		return nil, nil
	}), nil)
	b, out := input("null", "empty"), &fakeOutput{}
	if err := op.Process(context.Background(), b, out); err != nil {
		t.Fatal(err)
	}
	r, e := out.batches[0].Records[0], out.batches[0].Records[1]
	if r.Value != nil || e.Value == nil || string(r.Key) != "k" || r.Timestamp != 1000 || r.Pos != -1 || len(r.Headers) != 2 || r.Headers[0].Value != nil || r.Headers[1].Value == nil {
		t.Errorf("got %+v and %+v", r, e)
	}
	out.take()
	b.Release()
}

func TestFlatMap(t *testing.T) {
	each := compile(t, `split(lower(trim(this.line)), " ")`, expr.Env{Want: stream.List})
	it := ElementType(each)
	env := expr.Env{It: &it}
	f := FlatMap{Each: each, Where: compile(t, `it != ""`, env), Map: fields(t, env, "word", "it", "len", "len(it)")}
	values, rejected := run(t, opened(t, f.New(), nil), input(`{"line":" To  BE "}`, `{"line":7}`, `{"line":""}`, `{"line":"or"}`))
	equal(t, "emitted", values, `{"word":"to","len":2}`, `{"word":"be","len":2}`, `{"word":"or","len":2}`)
	equal(t, "rejected", rejected, "1 "+expr.CodeType)
	if s, _ := f.OutputSchema(nil); s.Type.String() != "{word: string, len: int}" {
		t.Errorf("schema %v", s.Type)
	}
}

// TestFlatMapIsAllOrNothing: an element that fails takes back those before it.
func TestFlatMapIsAllOrNothing(t *testing.T) {
	f := FlatMap{Each: compile(t, "this.l", expr.Env{}), Map: fields(t, expr.Env{It: &stream.Type{}}, "half", "10 / it", "of", "this.name")}
	values, rejected := run(t, opened(t, f.New(), nil), input(`{"name":"a","l":[1,2]}`, `{"l":[5,0,1]}`, `{"l":null}`, `{"name":"b","l":[4]}`))
	equal(t, "emitted", values, `{"half":10,"of":"a"}`, `{"half":5,"of":"a"}`, `{"half":2.5,"of":"b"}`)
	equal(t, "rejected", rejected, "1 "+expr.CodeDivideByZero)
}

func TestFlatMapOfDocuments(t *testing.T) {
	f := FlatMap{Each: compile(t, "this.items", expr.Env{}), Where: compile(t, "it.qty > 0", expr.Env{It: &stream.Type{}})}
	values, _ := run(t, opened(t, f.New(), nil), input(`{"items":[{"qty":1, "id":1e3},{"qty":0},{"qty":2}]}`))
	equal(t, "emitted", values, `{"qty":1, "id":1e3}`, `{"qty":2}`)
}

func TestFuncs(t *testing.T) {
	boom := errors.New("in/1@0 boom")
	words := FlatMapFunc(nil, func(r *stream.Record, emit func(stream.Record)) error {
		for w := range strings.FieldsSeq(string(r.Value)) {
			d := r.Derived()
			d.Value = []byte(w)
			emit(d)
		}
		if strings.HasSuffix(string(r.Value), "!") {
			return boom
		}
		return nil
	})
	values, rejected := run(t, opened(t, words, nil), input("a b", "c !", "d"))
	equal(t, "emitted", values, "a", "b", "d")
	equal(t, "rejected", rejected, "1 ")
	keep := FilterFunc(func(r *stream.Record) (bool, error) { return len(r.Value) > 1, nil })
	values, _ = run(t, opened(t, keep, nil), input("a", "bb"))
	equal(t, "kept", values, "bb")
}

func TestKeyer(t *testing.T) {
	env := expr.Env{}
	k := NewKeyer([]*expr.Program{compile(t, "this.a", env), compile(t, "this.b", env)})
	b := input(`{"a":"x","b":1.0}`, `{"a":"x","b":1}`, `{"a":"x"}`)
	var rejected []string
	if err := k.Key(b, func(i int, err error) { rejected = append(rejected, stream.CodeOf(err)) }); err != nil {
		t.Fatal(err)
	}
	equal(t, "rejected", rejected, expr.CodeKeyNull)
	if r := b.Records; string(r[0].Group) != `["x",1]` || string(r[1].Group) != `["x",1]` || r[0].Hash != stream.Hash(r[0].Group) || r[2].Group != nil {
		t.Errorf("keys %s %s %s", r[0].Group, r[1].Group, r[2].Group)
	}
	b.Release()

	b = input("v", "v", "v")
	b.Records[0].Key, b.Records[1].Key = nil, []byte{}
	rejected = nil
	if err := RecordKey().Key(b, func(i int, err error) { rejected = append(rejected, stream.CodeOf(err)) }); err != nil {
		t.Fatal(err)
	}
	equal(t, "rejected", rejected, expr.CodeKeyNull)
	if r := b.Records; r[0].Group != nil || r[1].Group == nil || string(r[2].Group) != "k" {
		t.Errorf("keys %q %q %q", r[0].Group, r[1].Group, r[2].Group)
	}
	b.Release()
}
