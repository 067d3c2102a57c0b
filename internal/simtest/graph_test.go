package simtest

import (
	"context"
	"time"

	"etl/expr"
	"etl/internal/kafkaconn"
	"etl/pipeline"
	"etl/sink"
	"etl/sink/twophase/kafka"
	"etl/source"
	sourcekafka "etl/source/kafka"
	"etl/stream"
	"etl/transform"
)

type kafkaSource struct{ cfg sourcekafka.Config }

func (s kafkaSource) NewEnumerator() source.Enumerator { return sourcekafka.NewEnumerator(s.cfg) }
func (s kafkaSource) NewReader() source.Reader         { return sourcekafka.NewReader(s.cfg) }
func (s kafkaSource) Bounded() bool                    { return s.cfg.Bounded() }

type kafkaSink struct{ cfg kafka.Config }

func (s kafkaSink) NewWriter() sink.Writer       { return kafka.NewWriter(s.cfg) }
func (s kafkaSink) NewCommitter() sink.Committer { return kafka.NewCommitter(s.cfg) }
func (s kafkaSink) Features() sink.Features      { return s.cfg.Features(transactionTimeout) }

// maxParallelism is the number of key groups, a small one, so that each has keys.
const maxParallelism = 16

// graph is the pipeline of the seed: source, an operator that takes its time, what
// the shape says, sink. counter is the name of the keyed operator.
func (s *sim) graph(counter stream.UID) *pipeline.Graph {
	conn := kafkaconn.Config{SeedBrokers: s.seeds}
	b := pipeline.New("sim").Parallelism(s.par).MaxParallelism(maxParallelism)
	var letters *pipeline.Stream
	st := b.Source("in", kafkaSource{s.sourceConfig(conn)}, &stream.Schema{Format: stream.JSON}).
		Apply("slow", described{nil, func() transform.Operator { return &slow{most: s.plan.pace} }})
	if s.plan.shape.fans() {
		st = st.Apply("some", transform.Filter{Where: s.compile("this.n % 3 != 0", stream.Bool)})
		if s.plan.second {
			letters = st.DeadLetters()
		}
		st = st.Apply("each", transform.FlatMap{Each: s.compile("this.items", stream.List)})
	}
	if s.plan.shape.keyed() {
		when := transform.OnChange
		if s.plan.atCheckpoint {
			when = transform.OnCheckpoint
		}
		st = st.KeyBy("meta.key", func() pipeline.Keyer { return transform.RecordKey() }).Apply(counter, transform.CountText(when))
	}
	out := s.sinkConfig(conn, "out", s.outlets[0].kind)
	if s.plan.refuses() {
		out.Encode = refuseZero
	}
	rows := st.Sink("out", kafkaSink{out})
	if s.plan.refuses() {
		letters = letters.Union(rows.DeadLetters())
	}
	switch {
	case letters != nil:
		letters.Sink("copy", kafkaSink{s.sinkConfig(conn, "copy", s.outlets[1].kind)})
	case s.plan.second:
		st.Sink("copy", kafkaSink{s.sinkConfig(conn, "copy", s.outlets[1].kind)})
	}
	g, err := b.Graph()
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	return g
}

func (s *sim) sourceConfig(conn kafkaconn.Config) sourcekafka.Config {
	c := sourcekafka.Config{Cluster: conn, Topics: []string{"in"}, BatchRecords: s.plan.batch, Group: "sim"}
	switch {
	case s.plan.bounded && s.plan.open == "":
		c.End = sourcekafka.Latest
	case s.plan.bounded:
		c.End, c.EndOffsets = sourcekafka.Exact, sourcekafka.Offsets{"in": s.in.ends}
	}
	return c
}

func (s *sim) sinkConfig(conn kafkaconn.Config, topic string, k kind) kafka.Config {
	c := kafka.Config{Conn: conn, Topics: []string{topic}, Policy: s.plan.sinkView, Parallelism: s.par, TransactionTimeout: transactionTimeout}
	if k == inOrder || k == eachOnce {
		c.Encode = samePartition
	}
	return c
}

// refuseZero is samePartition for a sink that cannot write 0.
func refuseZero(r *stream.Record, mem *stream.Batch, row *kafka.Row) error {
	if string(r.Value) == "0" {
		return stream.Errorf(stream.Failed, "sim.zero", "write", expr.Where(r), "there is no place for nothing")
	}
	return samePartition(r, mem, row)
}

// samePartition keeps rows in the partition they were read from.
func samePartition(r *stream.Record, _ *stream.Batch, row *kafka.Row) error {
	row.Partition = r.Partition
	return nil
}

func (s *sim) compile(text string, want stream.Kind) *expr.Program {
	p, err := expr.Compile(text, expr.Env{Want: want, This: &stream.Schema{Format: stream.JSON}})
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	return p
}

// described makes an operator of the test's own pluggable. A nil schema keeps that
// of the input.
type described struct {
	schema *stream.Schema
	make   func() transform.Operator
}

func (d described) New() transform.Operator { return d.make() }
func (d described) OutputSchema(in *stream.Schema) (*stream.Schema, error) {
	if d.schema == nil {
		return in, nil
	}
	return d.schema, nil
}

// slow takes its time, each subtask another one, so that barriers come apart.
type slow struct {
	most time.Duration
	env  transform.Env
}

func (o *slow) Open(_ context.Context, env transform.Env) error { o.env = env; return nil }

func (o *slow) Process(ctx context.Context, b *stream.Batch, out transform.Output) error {
	if o.env.Rand.IntN(3) > 0 {
		d := time.Duration(o.env.Rand.Int64N(int64(o.most) * int64(1+o.env.Subtask)))
		if err := o.env.Clock.Sleep(ctx, d); err != nil {
			return err
		}
	}
	b.Retain()
	out.EmitBatch(b)
	return nil
}

func (o *slow) Close() error { return nil }
