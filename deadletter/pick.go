package deadletter

import (
	"context"
	"fmt"

	"etl/config/kafka"
	"etl/stream"
	"etl/transform"
)

// pick is the operator of a replay: it emits the original records of the letters that
// were asked for, to one side output for each cluster.
type pick struct {
	filter Filter
	home   map[string]int // the cluster of each topic that the job reads
	tally  *Tally
}

// clusterTag names the output for a cluster.
func clusterTag(i int) stream.Tag { return stream.Tag("cluster-" + string(rune('a'+i))) }

// OutputSchema returns that of raw records.
func (*pick) OutputSchema(*stream.Schema) (*stream.Schema, error) {
	return &stream.Schema{Format: stream.Raw}, nil
}

// New returns the operator, which has no state.
func (p *pick) New() transform.Operator { return p }

// Open does nothing.
func (*pick) Open(context.Context, transform.Env) error { return nil }

// Close does nothing.
func (*pick) Close() error { return nil }

// Process implements transform.Operator.
func (p *pick) Process(_ context.Context, b *stream.Batch, out transform.Output) error {
	batches := map[int]*stream.Batch{}
	for i := range b.Records {
		l, ok := stream.OpenLetter(&b.Records[i])
		switch {
		case !ok:
			p.tally.Others.Add(1)
			continue
		case !p.filter.Takes(&l):
			p.tally.LeftOut.Add(1)
			continue
		case l.Made:
			p.tally.Made.Add(1)
			continue
		}
		at, ok := p.home[l.Topic]
		if !ok {
			out.Reject(b.Records[i], UnknownTopic(&l))
			continue
		}
		if batches[at] == nil {
			batches[at] = b.Derive(b.Schema)
		}
		batches[at].Append(l.Record)
	}
	for at, d := range batches {
		out.SideBatch(clusterTag(at), d)
	}
	return nil
}

// UnknownTopic is the error of a letter whose record cannot be put back.
func UnknownTopic(l *stream.Letter) error {
	return stream.Errorf(stream.Failed, "dlq.unknown_topic", "replay", fmt.Sprintf("%s/%d@%d", l.Topic, l.Partition, l.Offset), "the pipeline does not read topic %q", l.Topic).
		WithFix("select other letters with --component, or list the topic under a source")
}

// homes says which of the clusters each topic belongs to.
func homes(clusters []kafka.Cluster) map[string]int {
	out := map[string]int{}
	for i := range clusters {
		for _, t := range clusters[i].Topics {
			if _, there := out[t]; !there {
				out[t] = i
			}
		}
	}
	return out
}
