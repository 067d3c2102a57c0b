package verify

import (
	"fmt"
	"slices"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// Spec is a pipeline as plain data, expressions as text. The zero value of a field
// means the default of the pipeline file, unless the field says otherwise.
type Spec struct {
	Name       string
	Sources    []Source
	Transforms []Transform
	Sinks      []Sink
	// Letters are sinks of dead letters: they are named in the result, and not looked at.
	Letters []string
	// AtLeastOnce says that no sink promises more: then duplicates, and what follows
	// from them, are counted and are no fault.
	AtLeastOnce bool
}

// Offsets are offsets by topic and partition.
type Offsets map[string]map[int32]int64

// at returns the offset of a partition.
func (o Offsets) at(topic string, partition int32) (int64, bool) {
	n, ok := o[topic][partition]
	return n, ok
}

// Source is a component that reads topics.
type Source struct {
	Name   string
	Conn   kafkaconn.Config
	Topics []string
	// Start is earliest (default), offsets, or latest. Where latest was is known
	// only to the job, so StartOffsets must say it then, too. A partition that
	// StartOffsets does not name begins at its beginning: it was added later.
	Start        string
	StartOffsets Offsets
	// End is "" for a source that does not end, offsets, or latest. Where latest
	// was is not known here: what lies behind it is reported as behind.
	End        string
	EndOffsets Offsets
	// Uncommitted reads records of open and aborted transactions, too.
	Uncommitted bool
	// Decode is json (default), text or raw. Lenient accepts what strict: false does.
	Decode  string
	Lenient bool
	// OnError is fail (default) or skip.
	OnError     string
	Parallelism int // 0: 1
}

// Transform is a component between sources and sinks.
type Transform struct {
	Name string
	// Type is filter, map, flat_map or aggregate.
	Type   string
	Inputs []string
	// Where belongs to filter and flat_map, Each to flat_map, Map to map and
	// flat_map, the rest to aggregate.
	Where      string
	Each       string
	Map        []Field
	Key        []string
	Aggregates []Aggregate
	// Emit is on_checkpoint (default) or on_change.
	Emit        string
	OnError     string
	Parallelism int
}

// Field is a named expression.
type Field struct{ Name, Value string }

// Aggregate is one result of an aggregate: Op is count, sum, min or max.
type Aggregate struct{ Name, Op, Of, Where string }

// Sink is a component that writes to a topic, or, with one of Last, File, Append and
// Endpoint, elsewhere; Conn and Topic are not used then.
type Sink struct {
	Name   string
	Inputs []string
	Conn   kafkaconn.Config
	Topic  string
	// Key is an expression for the row's key; "" passes the record's on.
	Key string
	// Value is an expression for the row's value, or Map the fields of an object; ""
	// and none pass the record's value on.
	Value string
	Map   []Field
	// Encode is json, text or raw: how Value is written, default json; without Value
	// the way the record is, except that text becomes JSON under json.
	Encode string
	// DropHeaders leaves the headers of records out.
	DropHeaders bool
	// Last is set for a sink that keeps the last row per key outside of Kafka.
	Last *LastSink
	// AtLeastOnce is Spec.AtLeastOnce for this sink alone.
	AtLeastOnce bool
	// File is set for a sink that writes part files.
	File *FileSink
	// Append is set for a sink that appends rows to a table, Endpoint for one that sends
	// them to an endpoint.
	Append      *AppendSink
	Endpoint    *EndpointSink
	OnError     string
	Parallelism int
}

// Problems returns what is wrong with the parts of s that do not need to be
// compiled.
func (s *Spec) Problems() (errs []error) {
	bad := func(code, subject, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "verify."+code, "verify", subject, format, args...))
	}
	for i := range s.Sources {
		src := &s.Sources[i]
		if src.Start == "latest" && len(src.StartOffsets) == 0 {
			errs = append(errs, stream.Errorf(stream.BadConfig, "verify.start", "verify", "source "+src.Name,
				"start: latest: only the job knows where it began, and its checkpoints are not read here").WithFix("give the offsets at which it began"))
		}
		if src.End == "offsets" && len(src.EndOffsets) == 0 || src.Start == "offsets" && len(src.StartOffsets) == 0 {
			bad("offsets", "source "+src.Name, "offsets are announced and not given")
		}
		if len(src.Topics) == 0 {
			bad("topics", "source "+src.Name, "no topic is given")
		}
	}
	if len(s.Sources) == 0 || len(s.Sinks) == 0 {
		bad("empty", "pipeline "+s.Name, "%d sources and %d sinks: there is nothing to compare", len(s.Sources), len(s.Sinks))
	} else if !slices.ContainsFunc(s.Sinks, Sink.known) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "verify.received", "verify", "sink "+s.Sinks[0].Name,
			"an endpoint cannot be asked what it has, and the pipeline writes nowhere else: there is nothing to compare").
			WithFix("let the endpoint write what it takes to a file, one row a line, and name it: --received %s=FILE", s.Sinks[0].Name))
	}
	return errs
}

// known reports whether anything is known of what the sink has.
func (s Sink) known() bool { return s.Endpoint == nil || len(s.Endpoint.Received) > 0 }

// name of a partition in messages.
func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}
