package demo

import (
	"fmt"
	"strings"

	"etl/internal/kafkaconn"
	"etl/verify"
)

const (
	linesTopic  = "text.lines"
	countsTopic = "text.word-counts"
	jobName     = "word-count"
	subtasks    = 2
)

// pipelineFile is the pipeline the worker runs, as a user would write it. It is
// bounded, so that the demo ends.
func (r *run) pipelineFile() string {
	mode := "exactly_once"
	if r.o.AtLeastOnce {
		mode = "at_least_once"
	}
	var ends []string
	for p := range partitions {
		ends = append(ends, fmt.Sprintf("%d: %d", p, share(r.o.Records, p)))
	}
	return fmt.Sprintf(`version: 1
name: %s
parallelism: %d

checkpoint:
  mode: %s
  interval: 1s
  min_pause: 100ms
  storage: file://%s

state:
  dir: %s

http: { address: none }
telemetry:
  log: { level: info, format: json }

connections:
  main:
    type: kafka
    seed_brokers: [%q]

sources:
  lines:
    type: kafka
    connection: main
    topics: [%s]
    start: earliest
    end: { offsets: { %s: { %s } } }
    decode: text

transforms:
  words:
    type: flat_map
    inputs: [lines]
    each: %s
    where: it != ""
    map: { word: it }

  counts:
    type: aggregate
    inputs: [words]
    key: this.word
    aggregates:
      n: { op: count }
    emit: on_change

sinks:
  word_counts:
    type: kafka
    inputs: [counts]
    connection: main
    topic: %s
    key: this.word
    encode: json
`, jobName, subtasks, mode, r.dir+"/checkpoints", r.dir+"/state", r.address, linesTopic, linesTopic, strings.Join(ends, ", "), splitWords, countsTopic)
}

const splitWords = `split(lower(trim(this.value)), " ")`

// spec says the same to the recount.
func (r *run) spec() verify.Spec {
	conn := kafkaconn.Config{SeedBrokers: []string{r.address}}
	ends := map[int32]int64{}
	for p := range partitions {
		ends[int32(p)] = share(r.o.Records, p)
	}
	return verify.Spec{Name: jobName, AtLeastOnce: r.o.AtLeastOnce,
		Sources: []verify.Source{{Name: "lines", Conn: conn, Topics: []string{linesTopic}, End: "offsets", EndOffsets: verify.Offsets{linesTopic: ends},
			Decode: "text", Parallelism: subtasks}},
		Transforms: []verify.Transform{
			{Name: "words", Type: "flat_map", Inputs: []string{"lines"}, Each: splitWords, Where: `it != ""`, Map: []verify.Field{{Name: "word", Value: "it"}}, Parallelism: subtasks},
			{Name: "counts", Type: "aggregate", Inputs: []string{"words"}, Key: []string{"this.word"}, Aggregates: []verify.Aggregate{{Name: "n", Op: "count"}},
				Emit: "on_change", Parallelism: subtasks}},
		Sinks: []verify.Sink{{Name: "word_counts", Inputs: []string{"counts"}, Conn: conn, Topic: countsTopic, Key: "this.word", Encode: "json", Parallelism: subtasks}}}
}
