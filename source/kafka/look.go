package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// How long a start waits for what the brokers do not know yet: metadata takes a
// moment to reach all of them, and a leader some seconds to be elected.
const (
	missingPatience    = 5 * time.Second
	leaderlessPatience = 30 * time.Second
	lookAgain          = 200 * time.Millisecond
)

// notYet is an answer that may be another one soon.
type notYet struct {
	err      *stream.Error
	patience time.Duration
}

func (n *notYet) Error() string { return n.err.Error() }
func (n *notYet) Unwrap() error { return n.err }

// patiently calls f until it succeeds or has failed for longer than its error is
// worth waiting for.
func patiently(ctx context.Context, clock stream.Clock, f func() error) error {
	began := clock.Now()
	for {
		var n *notYet
		err := f()
		if !errors.As(err, &n) {
			return err
		}
		if clock.Now().Sub(began) >= n.patience {
			return n.err
		}
		if err := clock.Sleep(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// settle makes one error of many: what is certain, or else the first that may pass.
func settle(errs []error) error {
	var certain []error
	var passing error
	for _, err := range errs {
		var n *notYet
		switch {
		case err == nil:
		case !errors.As(err, &n):
			certain = append(certain, err)
		case passing == nil:
			passing = err
		}
	}
	if len(certain) > 0 {
		return errors.Join(certain...)
	}
	return passing
}

// tp names a partition.
type tp struct {
	topic     string
	partition int32
}

func (p tp) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

func of(s *stream.Split) tp { return tp{s.Topic, s.Partition} }

// layout is what the brokers say exists.
type layout struct {
	ids        map[string]stream.TopicID
	partitions map[string]int32 // how many a topic has
	leaderless map[tp]error
}

// look asks the brokers for the layout of the topics.
func look(ctx context.Context, adm *kadm.Client, topics []string) (*layout, error) {
	const op = "describe topic"
	m, err := adm.Metadata(ctx, topics...)
	if err != nil {
		return nil, kafkaconn.Explain(err, op, access(topics)...)
	}
	l := &layout{ids: map[string]stream.TopicID{}, partitions: map[string]int32{}, leaderless: map[tp]error{}}
	for _, name := range topics {
		t, ok := m.Topics[name]
		if !ok {
			t.Err = kerr.UnknownTopicOrPartition
		}
		if t.Err != nil {
			return nil, soon(kafkaconn.Explain(t.Err, op, access([]string{name})...))
		}
		l.ids[name] = stream.TopicID(t.ID)
		for n, p := range t.Partitions {
			l.partitions[name] = max(l.partitions[name], n+1)
			if p.Err != nil || p.Leader < 0 {
				l.leaderless[tp{name, n}] = errors.Join(p.Err, kerr.LeaderNotAvailable)
			}
		}
	}
	return l, nil
}

func access(topics []string) (out []kafkaconn.Access) {
	for _, t := range topics {
		out = append(out, kafkaconn.Access{Kind: kafkaconn.Topic, Name: t, Operation: "DESCRIBE"})
	}
	return out
}

// soon says how long an answer about a topic is worth waiting for.
func soon(err error) error {
	var e *stream.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == "kafka.topic_missing":
		return &notYet{e, missingPatience}
	case e.Class == stream.Retry:
		return &notYet{e, leaderlessPatience}
	}
	return err
}

// ready reports a partition that cannot be asked for offsets.
func (l *layout) ready(p tp) error {
	if err := l.leaderless[p]; err != nil {
		e := stream.Errorf(stream.Restart, "source.leaderless", "find partition", p.String(), "it has no leader: %w", err).
			WithFix("bring its brokers back; its records are not skipped")
		return &notYet{e, leaderlessPatience}
	}
	return nil
}

// logs are the offsets of partitions: where each log begins, ends, and up to where
// it can be read.
type logs struct{ start, end, stable kadm.ListedOffsets }

// measure asks the leaders for offsets of all partitions of the topics.
func measure(ctx context.Context, adm *kadm.Client, topics []string) (l logs, err error) {
	for _, ask := range []struct {
		to *kadm.ListedOffsets
		f  func(context.Context, ...string) (kadm.ListedOffsets, error)
	}{{&l.start, adm.ListStartOffsets}, {&l.end, adm.ListEndOffsets}, {&l.stable, adm.ListCommittedOffsets}} {
		if *ask.to, err = ask.f(ctx, topics...); err != nil && len(*ask.to) == 0 {
			return l, soon(kafkaconn.Explain(err, "list offsets", access(topics)...))
		}
	}
	return l, nil
}

// at returns an offset of a partition.
func at(l kadm.ListedOffsets, p tp) (int64, error) {
	o, ok := l.Lookup(p.topic, p.partition)
	switch {
	case !ok:
		return 0, missingAnswer(p)
	case o.Err != nil:
		return 0, soon(kafkaconn.Explain(o.Err, "list offsets", access([]string{p.topic})...))
	}
	return o.Offset, nil
}

func missingAnswer(p tp) error {
	e := stream.Errorf(stream.Restart, "source.no_answer", "list offsets", p.String(), "the brokers left the partition out of their answer")
	return &notYet{e, leaderlessPatience}
}
