package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// explain makes a typed error of what the client said about a partition. All of
// them end the attempt.
func (r *Reader) explain(p tp, err error) error {
	subject, s := p.topic, &stream.Split{}
	if part := r.parts[p]; part != nil {
		s = &part.split
		subject = s.String()
	}
	var lost *kgo.ErrDataLoss
	var large *kgo.ErrDecompressTooLarge
	switch {
	case errors.As(err, &lost):
		return stream.Errorf(stream.DataLoss, "source.log_truncated", "read", subject,
			"the log of leader epoch %d ends at %d: what was read from [%d,%d) is not there any more", lost.ConsumedToEpoch, lost.ResetTo, lost.ResetTo, lost.ConsumedTo).
			WithFix("the brokers lost acknowledged records (unclean leader election, a restored disk); what was made of them is in the output")
	case errors.Is(err, kerr.OffsetOutOfRange):
		return stream.Errorf(stream.DataLoss, "source.out_of_range", "read", subject,
			"offset %d is not in the log any more, %s", s.NextOffset, r.extent(p, s.NextOffset)).
			WithFix("raise retention; to go on without the records, start anew with empty state")
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return stream.Errorf(stream.DataLoss, "source.topic_recreated", "read", subject,
			"the topic with the id %s was deleted, and perhaps made again: its records from offset %d are gone", hexID(s.TopicID), s.NextOffset).
			WithFix("start anew with empty state, if the loss is acceptable")
	case errors.As(err, &large):
		return stream.Errorf(stream.Failed, "source.batch_too_large", "read", subject,
			"the batch at offset %d unfolds to more than is allowed: %w", large.Offset, err).
			WithFix("look at what produced it; its records cannot be read")
	case errors.Is(err, kgo.ErrClientClosed):
		return errClosed
	}
	return typed(p.topic, subject, err)
}

// extent says where a log begins and ends, for the message about a position that
// is in neither: the broker's answer to a fetch leaves that out.
func (r *Reader) extent(p tp, next int64) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l, err := measure(ctx, kadm.NewClient(r.cl), []string{p.topic})
	if err != nil {
		return "and where the log begins is not known: " + err.Error()
	}
	start, err1 := at(l.start, p)
	end, err2 := at(l.end, p)
	switch {
	case errors.Join(err1, err2) != nil:
		return "and where the log begins is not known"
	case next < start:
		return fmt.Sprintf("which begins at %d: the records [%d,%d) were deleted before they were read", start, next, start)
	}
	return fmt.Sprintf("which ends at %d: it was cut", end)
}

// typed explains all other errors.
func typed(topic, subject string, err error) error {
	var ke *kerr.Error
	if !errors.As(err, &ke) && !kgo.IsRetryableBrokerErr(err) {
		return stream.Errorf(stream.Failed, "source.unreadable", "read", subject, "%w", err).
			WithFix("a batch at or after this offset may be damaged: look at the broker's log")
	}
	err = kafkaconn.Explain(err, "read "+subject, kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: "READ"})
	var e *stream.Error
	if errors.As(err, &e) && e.Class == stream.Retry {
		again := *e
		again.Class = stream.Restart
		return &again
	}
	return err
}
