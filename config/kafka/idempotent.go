package kafka

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/checkpoint"
	"etl/config"
	"etl/expr"
	"etl/pipeline"
	"etl/sink"
	"etl/sink/twophase/kafka"
	"etl/stream"
	"etl/transform"
)

// idempotent makes a sink that writes records by key at once, with the producer of the
// modes without transactions, into a topic of which the last record of a key counts. A
// topic cannot refuse an older value, so there is no guard.
func idempotent(c *config.Component, s *Sink, e *encoding, cfg *kafka.Config, p *config.Parts) {
	cfg.Policy.Mode = checkpoint.AtLeastOnce
	key := "meta.key"
	if s.Key != "" {
		key = string(s.Key)
	}
	p.Key = distribution(key, e.key)
	c.Guard(config.Idempotent{Version: "auto", None: "a topic cannot refuse an older value", KeyPath: "key", Key: []string{key}, By: p.Key}, p)
	p.Claims, p.TimeoutKey = nil, ""
	p.Outage = "any outage loses nothing: records since the last checkpoint are written again; reading stops meanwhile"
	own := *cfg
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: sink.Features{Ordered: true, Upsert: true, NeedsKey: true}, NewWriter: func() sink.Writer {
		w := own
		w.Encode = withKey(e.encoder())
		return kafka.NewWriter(w)
	}}
	p.Preflight = func(ctx context.Context, w stream.World) (config.Facts, error) {
		return config.Facts{}, compacted(ctx, w, c, own)
	}
}

// distribution sends the records of a key to one subtask, in their order.
func distribution(text string, key *expr.Program) *pipeline.Key {
	return &pipeline.Key{Text: text, New: func() pipeline.Keyer {
		if key == nil {
			return transform.RecordKey()
		}
		return transform.NewKeyer([]*expr.Program{key})
	}}
}

// withKey rejects records without a key.
func withKey(inner kafka.Encoder) kafka.Encoder {
	return func(r *stream.Record, mem *stream.Batch, row *kafka.Row) error {
		if inner != nil {
			if err := inner(r, mem, row); err != nil {
				return err
			}
		}
		if row.Key == nil {
			return stream.Errorf(stream.Failed, "kafka.no_key", "write row", expr.Where(r), "the record has no key: a repetition would be there twice")
		}
		return nil
	}
}

// compacted warns when the topic keeps every record.
func compacted(ctx context.Context, w stream.World, c *config.Component, cfg kafka.Config) error {
	if _, _, err := cfg.Limits(ctx, w); err != nil {
		return err
	}
	if cfg.Conn.Dial == nil {
		cfg.Conn.Dial = w.Dial
	}
	cl, err := cfg.Conn.NewClient()
	if err != nil {
		return err
	}
	defer cl.Close()
	rs, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, cfg.Topics...)
	if err != nil {
		return nil // the right to ask is not needed otherwise
	}
	for _, r := range rs {
		for _, one := range r.Configs {
			if one.Key == "cleanup.policy" && !strings.Contains(one.MaybeValue(), "compact") {
				c.Warn("topic", "kafka.not_compacted", "the topic keeps every record, not the last one of each key: readers find repetitions", "kafka-configs.sh --alter --topic "+r.Name+" --add-config cleanup.policy=compact")
			}
		}
	}
	return nil
}
