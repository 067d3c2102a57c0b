package main

import (
	"fmt"
	"slices"
	"strconv"

	"etl/checkpoint"
	"etl/config"
	"etl/config/file"
	"etl/config/http"
	"etl/config/kafka"
	"etl/config/postgres"
	"etl/config/redis"
	"etl/pipeline"
	"etl/stream"
	"etl/verify"
)

// recountSpec puts a pipeline file into the words of verify, which must not share
// the loader: it knows nothing of graphs and operators.
func recountSpec(job *config.Job) (verify.Spec, error) {
	s := verify.Spec{Name: job.Spec.Name, AtLeastOnce: job.Policy.Mode != checkpoint.ExactlyOnce}
	for _, c := range job.Components {
		if len(c.LettersOf()) > 0 {
			s.Letters = append(s.Letters, c.Name)
			continue
		}
		switch spec := c.Spec().(type) {
		case *config.RouteSpec:
			s.Transforms = append(s.Transforms, recountRoute(c, spec)...)
		case *kafka.Source:
			src, err := recountSource(c, spec)
			if err != nil {
				return s, err
			}
			s.Sources = append(s.Sources, src)
		case *file.Sink:
			s.Sinks = append(s.Sinks, recountFiles(c, spec, job.Spec.Name))
		case *redis.Sink:
			s.Sinks = append(s.Sinks, recountRedis(c, spec))
		case *postgres.Sink:
			s.Sinks = append(s.Sinks, recountTable(c, spec))
		case *http.Sink:
			s.Sinks = append(s.Sinks, recountEndpoint(c, spec))
		case *kafka.Sink:
			s.Sinks = append(s.Sinks, recountSink(c, spec))
		default:
			t, ok := recountTransform(c)
			if !ok {
				return s, stream.Errorf(stream.BadConfig, "verify.type", "verify", c.Name, "the recount does not know the component type %q", c.Type)
			}
			s.Transforms = append(s.Transforms, t)
		}
	}
	return s, nil
}

// onError is the policy as a recount sees it: a record that becomes a dead letter is
// left out.
func onError(c *config.Component) string {
	if c.OnError() == string(pipeline.DeadLetter) {
		return string(pipeline.Skip)
	}
	return c.OnError()
}

// recountRoute words a route as filters, one for each output: each evaluates the
// conditions in their order up to the first that holds, as the route does, and so
// rejects the same records.
func recountRoute(c *config.Component, spec *config.RouteSpec) (out []verify.Transform) {
	var outputs []string
	for _, x := range spec.Route {
		outputs = append(outputs, x.Key)
	}
	if d := spec.Default; d != "" && !slices.Contains(outputs, d) {
		outputs = append(outputs, d)
	}
	for _, o := range outputs {
		where, end := "", ""
		for _, x := range spec.Route {
			where, end = where+fmt.Sprintf("(%s) ? %t : (", x.Value.When, x.Key == o), end+")"
		}
		where += fmt.Sprint(o == spec.Default) + end
		out = append(out, verify.Transform{Name: c.Name + "." + o, Type: "filter", Inputs: c.Inputs(), Where: where, OnError: onError(c), Parallelism: c.Parallelism})
	}
	return out
}

func recountSource(c *config.Component, spec *kafka.Source) (verify.Source, error) {
	conn := config.Connected[kafka.Connection](c, "connection", spec.Connection)
	src := verify.Source{Name: c.Name, Conn: conn.Conn(), Topics: spec.Topics, Start: spec.Start.At, Uncommitted: spec.Isolation == "read_uncommitted",
		Decode: c.Decode().Format, Lenient: !c.Decode().Strict, OnError: onError(c), Parallelism: c.Parallelism}
	var err error
	if len(spec.Start.Offsets) > 0 {
		src.Start = "offsets"
		if src.StartOffsets, err = offsets(spec.Start.Offsets); err != nil {
			return src, err
		}
	}
	if e := spec.End; e != nil {
		src.End = e.At
		if len(e.Offsets) > 0 {
			src.End = "offsets"
			src.EndOffsets, err = offsets(e.Offsets)
		}
	}
	return src, err
}

func offsets(m config.Map[config.Map[int64]]) (verify.Offsets, error) {
	out := verify.Offsets{}
	for _, topic := range m {
		out[topic.Key] = map[int32]int64{}
		for _, p := range topic.Value {
			n, err := strconv.ParseInt(p.Key, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("partition %q of %s: %w", p.Key, topic.Key, err)
			}
			out[topic.Key][int32(n)] = p.Value
		}
	}
	return out, nil
}

func recountSink(c *config.Component, spec *kafka.Sink) verify.Sink {
	conn := config.Connected[kafka.Connection](c, "connection", spec.Connection)
	return verify.Sink{Name: c.Name, Inputs: c.Inputs(), Conn: conn.Conn(), Topic: spec.Topic, Key: string(spec.Key), Value: string(spec.Value),
		Map: recountFields(spec.Map), Encode: spec.Encode, AtLeastOnce: spec.Delivery == "at_least_once" || spec.Delivery == "idempotent", DropHeaders: spec.Headers == "none", OnError: onError(c), Parallelism: c.Parallelism}
}

func recountFiles(c *config.Component, spec *file.Sink, job string) verify.Sink {
	f := &verify.FileSink{Path: spec.Path, Job: job, UID: string(c.UID), Format: spec.Format, PartitionBy: recountFields(spec.PartitionBy)}
	for _, col := range spec.Columns {
		f.Columns = append(f.Columns, verify.FileColumn{Name: col.Key, Value: string(col.Value.Value), Type: col.Value.Type})
	}
	return verify.Sink{Name: c.Name, Inputs: c.Inputs(), File: f, Value: string(spec.Value), Map: recountFields(spec.Map), Encode: "json",
		OnError: onError(c), Parallelism: c.Parallelism}
}

// recountEndpoint words an endpoint; what it received, flags say (verifyFlags.endpoints).
func recountEndpoint(c *config.Component, spec *http.Sink) verify.Sink {
	return verify.Sink{Name: c.Name, Inputs: c.Inputs(), Endpoint: &verify.EndpointSink{}, Value: string(spec.Value), Map: recountFields(spec.Map), Encode: "json",
		OnError: onError(c), Parallelism: c.Parallelism}
}

func recountFields(m config.Map[config.Expr]) (out []verify.Field) {
	for _, f := range m {
		out = append(out, verify.Field{Name: f.Key, Value: string(f.Value)})
	}
	return out
}

func recountTransform(c *config.Component) (verify.Transform, bool) {
	t := verify.Transform{Name: c.Name, Type: c.Type, Inputs: c.Inputs(), OnError: onError(c), Parallelism: c.Parallelism}
	switch spec := c.Spec().(type) {
	case *config.FilterSpec:
		t.Where = string(spec.Where)
	case *config.MapSpec:
		t.Map = recountFields(spec.Map)
	case *config.FlatMapSpec:
		t.Each, t.Where, t.Map = string(spec.Each), string(spec.Where), recountFields(spec.Map)
	case *config.AggregateSpec:
		t.Emit = spec.Emit
		for _, k := range spec.Key {
			t.Key = append(t.Key, string(k))
		}
		for _, a := range spec.Aggregates {
			t.Aggregates = append(t.Aggregates, verify.Aggregate{Name: a.Key, Op: a.Value.Op, Of: string(a.Value.Of), Where: string(a.Value.Where)})
		}
	default:
		return t, false
	}
	return t, true
}
