package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// Report tells the consumer group how far a committed checkpoint has read. A
// position counts markers, so that lag becomes 0.
func (e *Enumerator) Report(ctx context.Context, p checkpoint.Permit, splits []stream.Split) error {
	if e.cfg.Group == "" {
		return nil
	}
	fault.Point("source.report")
	os := kadm.Offsets{}
	for i := range splits {
		s := &splits[i]
		os.Add(kadm.Offset{Topic: s.Topic, Partition: s.Partition, At: s.NextOffset, LeaderEpoch: s.LeaderEpoch, Metadata: "etl " + p.ID().String()})
	}
	needs := append(access(e.cfg.Topics), kafkaconn.Access{Kind: kafkaconn.Group, Name: e.cfg.Group, Operation: "READ"})
	answers, err := e.adm.CommitOffsets(ctx, e.cfg.Group, os)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("group %s: %w", e.cfg.Group, kafkaconn.Explain(err, "report offsets", needs...))
	}
	return nil
}
