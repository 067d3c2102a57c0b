package kafka

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"etl/config"
	"etl/pipeline"
	"etl/sink/twophase/kafka"
	"etl/stream"
)

// encodingOf loads a sink and returns how it encodes.
func encodingOf(t *testing.T, decode, keys string) *encoding {
	t.Helper()
	var e *encoding
	r := config.NewRegistry()
	Register(r, Options{})
	config.Register(r, config.Sinks, "probe", "a sink that keeps its encoding", func(c *config.Component, s *Sink) config.Parts {
		e = newEncoding(c, s)
		return config.Parts{Sink: &pipeline.Sink{}}
	})
	text := fmt.Sprintf(`
name: x
connections: { main: { type: kafka, seed_brokers: ["localhost:9092"] } }
sources: { in: { type: kafka, connection: main, topics: [t], decode: %s } }
sinks: { out: { type: probe, inputs: in, connection: main, topic: u, %s } }
`, decode, keys)
	if _, ps := (&config.Loader{Registry: r}).Load("p.yaml", []byte(text)); ps.Failed() {
		t.Fatal(ps)
	}
	return e
}

func TestEncode(t *testing.T) {
	record := stream.Record{Key: []byte("k"), Headers: []stream.Header{{Key: "h"}, {Key: "h", Value: []byte{}}}, Topic: "t"}
	for _, tc := range []struct{ decode, keys, value, want string }{
		{"json", "key: this.a", `{"a":9007199254740993,"b":1.10}`, `9007199254740993 {"a":9007199254740993,"b":1.10} 2`},
		{"json", "key: this.a", `{"a":""}`, `"" {"a":""} 2`},
		{"json", "key: this.none", `{"a":1}`, `null {"a":1} 2`},
		{"json", "headers: none", `{"a":1}`, `k {"a":1} 0`},
		{"json", "value: this.a", `{"a":"x\ny"}`, `k "x\ny" 2`},
		{"json", "value: this.a, encode: text", `{"a":"x"}`, `k x 2`},
		{"json", "value: this.none, encode: text", `{"a":"x"}`, `k null 2`},
		{"json", "value: this.none", `{"a":"x"}`, `k null 2`},
		{"json", "value: this.a, encode: raw", `{"a":""}`, `k "" 2`},
		{"json", "map: { z: this.b, y: meta.topic, x: 1 }", `{"b":1.10}`, `k {"z":1.10,"y":"t","x":1} 2`},
		{"text", "encode: json", "a\tb", `k {"value":"a\tb"} 2`},
		{"text", "key: upper(this.value)", "ab", `AB ab 2`},
		{"raw", "key: meta.topic", "\x00\xff", "t \x00\xff 2"},
		{"json", "key: this.a, encode: raw", `{"a":"1"}`, `1 {"a":"1"} 2`},
	} {
		t.Run(tc.decode+" "+tc.keys, func(t *testing.T) {
			f := encodingOf(t, tc.decode, tc.keys).encoder()
			mem := stream.NewBatch(nil)
			defer mem.Release()
			var rows []kafka.Row
			for range 2 { // the second must not write over the first
				r := record
				r.Value = []byte(tc.value)
				row := kafka.Row{Key: r.Key, Value: r.Value, Headers: r.Headers}
				if err := f(&r, mem, &row); err != nil {
					t.Fatal(err)
				}
				rows = append(rows, row)
			}
			for _, row := range rows {
				if got := fmt.Sprintf("%s %s %d", shown(row.Key), shown(row.Value), len(row.Headers)); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			}
		})
	}
}

func shown(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) == 0:
		return `""`
	}
	return string(b)
}

func TestPassThrough(t *testing.T) {
	for _, keys := range []string{"", "encode: json", "encode: raw"} {
		if encodingOf(t, "json", keys).encoder() != nil {
			t.Errorf("%q: an encoder for records that pass as they are", keys)
		}
	}
	// A tombstone stays one, and keeps its key.
	f := encodingOf(t, "json", "map: { a: this.a }").encoder()
	row := kafka.Row{Key: []byte("k")}
	if err := f(&stream.Record{Key: []byte("k")}, stream.NewBatch(nil), &row); err != nil || row.Value != nil || string(row.Key) != "k" {
		t.Errorf("%+v, %v", row, err)
	}
	// An error names the place of the record and nothing of it.
	f = encodingOf(t, "json", "key: this.a * 2").encoder()
	err := f(&stream.Record{Topic: "t", Partition: 3, Offset: 17, Value: []byte(`{"a":"canary"}`)}, stream.NewBatch(nil), &row)
	if err == nil || !strings.Contains(err.Error(), "t/3@17") || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

// TestFactories: each task gets its own reader, writer and evaluator.
func TestFactories(t *testing.T) {
	r := config.NewRegistry()
	Register(r, Options{})
	job, ps := (&config.Loader{Registry: r}).Load("p.yaml", []byte(`
name: x
connections: { main: { type: kafka, seed_brokers: ["localhost:1"] } }
sources: { in: { type: kafka, connection: main, topics: [t], end: latest } }
sinks: { out: { type: kafka, inputs: in, connection: main, topic: u, key: this.id } }
`))
	if job == nil {
		t.Fatal(ps)
	}
	in, out := job.Graph.Node("in"), job.Graph.Node("out")
	if !in.Source.Bounded || in.Source.NewReader() == in.Source.NewReader() || in.Source.NewEnumerator() == in.Source.NewEnumerator() {
		t.Error("source")
	}
	if out.Sink.NewWriter() == out.Sink.NewWriter() || out.Sink.NewCommitter() == nil || !out.Sink.Features.Marker || out.Sink.Delivery != "two_phase" {
		t.Error("sink")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ps := job.Preflight(ctx, stream.SystemWorld(nil)); !ps.Failed() || ps[0].Path != "sinks.out" {
		t.Errorf("no broker, and the preflight says %v", ps)
	}
}
