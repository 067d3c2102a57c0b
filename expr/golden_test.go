package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"etl/stream"
)

func objectOf(open bool, fields ...stream.Field) stream.Type {
	return stream.Type{Kind: stream.Object, Fields: fields, Open: open}
}

func field(name string, t stream.Type) stream.Field { return stream.Field{Name: name, Type: t} }

// schemas are those the goldens name.
var schemas = map[string]*stream.Schema{
	"any":  nil,
	"text": {Format: stream.Text},
	"raw":  {Format: stream.Raw},
	"orders": {Format: stream.JSON, Type: objectOf(false,
		field("user_id", of(stream.Int)),
		field("total", of(stream.Decimal)),
		field("note", of(stream.String)),
		field("paid", of(stream.Bool)),
		field("tags", listOf(of(stream.String))),
		field("items", listOf(objectOf(false, field("qty", of(stream.Int)), field("price", of(stream.Decimal)), field("sku", of(stream.String))))),
		field("extra", objectOf(true)),
	)},
	"counts": {Format: stream.JSON, Alias: map[string]string{"key": "word"}, Type: objectOf(false, field("word", of(stream.String)), field("n", of(stream.Int)))},
	"minutes": {Format: stream.JSON, Alias: map[string]string{"key[0]": "country", "key[1]": "segment"},
		Type: objectOf(false, field("country", of(stream.String)), field("segment", of(stream.String)), field("n", of(stream.Int)))},
}

// TestGolden runs the stories of testdata: "compile" shows the type of each line
// or its error with a caret, "eval" the value of each line over the document in
// the first.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			env := goldenEnv(t, d)
			lines := strings.Split(d.Input, "\n")
			switch d.Cmd {
			case "compile":
				return compileLines(lines, env)
			case "eval":
				return evalLines(lines[0], lines[1:], env, !d.HasArg("origin"))
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func goldenEnv(t *testing.T, d *datadriven.TestData) (env Env) {
	var schema, want string
	d.MaybeScanArgs(t, "schema", &schema)
	d.MaybeScanArgs(t, "want", &want)
	env.This = schemas[schema]
	for k := stream.Any; k <= stream.Object; k++ {
		if k.String() == want {
			env.Want = k
		}
	}
	if d.HasArg("it") {
		env.It = &stream.Type{Kind: stream.String}
	}
	return env
}

func compileLines(lines []string, env Env) string {
	var out strings.Builder
	for _, src := range lines {
		p, err := Compile(src, env)
		var e *Error
		if !errors.As(err, &e) {
			fmt.Fprintf(&out, "%s\n  %s\n", src, p.Type())
			continue
		}
		fmt.Fprintf(&out, "%s\n%s^ %s: %s", src, strings.Repeat(" ", e.Column-1), e.Code, e.Message)
		if len(e.Near) > 0 {
			fmt.Fprintf(&out, "; near: %s", strings.Join(e.Near, ", "))
		}
		out.WriteString("\n")
	}
	return out.String()
}

func evalLines(doc string, lines []string, env Env, origin bool) string {
	rec := &stream.Record{Topic: "orders", Partition: 2, Offset: 71, Timestamp: 1700000000000, Value: []byte(doc), Key: []byte("k"),
		Headers: []stream.Header{{Key: "trace", Value: []byte("a")}, {Key: "trace", Value: []byte("b")}, {Key: "none"}}}
	if doc == "tombstone" {
		rec.Value = nil
	}
	if !origin {
		rec.Topic = ""
	}
	ev := NewEvaluator()
	ev.Bind(It, StringValue("element"))
	var out strings.Builder
	for _, src := range lines {
		p, err := Compile(src, env)
		if err != nil {
			fmt.Fprintf(&out, "%s => %v\n", src, err)
			continue
		}
		v, err := ev.AppendJSON(nil, p, rec)
		if err != nil {
			v = fmt.Appendf(v, "%s: %v", stream.CodeOf(err), err)
		}
		fmt.Fprintf(&out, "%s => %s\n", src, v)
	}
	return out.String()
}
