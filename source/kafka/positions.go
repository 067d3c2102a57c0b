package kafka

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// resolve turns what the configuration says into offsets.
func resolve(cfg *Config, p tp, l *logs) (stream.Split, error) {
	s := stream.Split{Topic: p.topic, Partition: p.partition, LeaderEpoch: -1, End: stream.Unbounded}
	start, err1 := at(l.start, p)
	end, err2 := at(l.end, p)
	readable := l.stable
	if cfg.Isolation == ReadUncommitted {
		readable = l.end
	}
	latest, err3 := at(readable, p)
	if err := settle([]error{err1, err2, err3}); err != nil {
		return s, err
	}
	switch cfg.Start {
	case Earliest:
		s.NextOffset = start
	case Latest:
		s.NextOffset = latest
	case Exact:
		o, ok := cfg.StartOffsets[p.topic][p.partition]
		if !ok {
			return s, unnamed("start", p)
		}
		if o < start || o > end {
			return s, stream.Errorf(stream.BadConfig, "source.start", "resolve start", p.String(), "offset %d is outside the log, which has [%d,%d)", o, start, end)
		}
		s.NextOffset = o
	}
	switch cfg.End {
	case Latest:
		s.End = latest
	case Exact:
		o, ok := cfg.EndOffsets[p.topic][p.partition]
		if !ok {
			return s, unnamed("end", p)
		}
		s.End = o
	}
	return s, nil
}

func unnamed(field string, p tp) error {
	return stream.Errorf(stream.BadConfig, "source."+field, "resolve "+field, p.String(), "no offset is given for the partition").
		WithFix("name every partition of the topic, or use one of the words")
}

// unknownOffsets reports offsets of partitions that do not exist.
func unknownOffsets(cfg *Config, l *layout) (errs []error) {
	for field, offsets := range map[string]Offsets{"start": cfg.StartOffsets, "end": cfg.EndOffsets} {
		for topic, ps := range offsets {
			for n := range ps {
				if n >= l.partitions[topic] {
					errs = append(errs, stream.Errorf(stream.BadConfig, "source."+field, "resolve "+field, tp{topic, n}.String(),
						"the topic has %d partitions", l.partitions[topic]))
				}
			}
		}
	}
	return errs
}

// checkConfig refuses a configuration that contradicts what the first start fixed.
func checkConfig(cfg *Config, known []stream.Split) (errs []error) {
	for i := range known {
		s := &known[i]
		if !slices.Contains(cfg.Topics, s.Topic) {
			errs = append(errs, stream.Errorf(stream.RestoreRefused, "source.topic_not_listed", "restore", of(s).String(),
				"the checkpoint has read up to %d of it, and topics no longer lists it: its records would be skipped", s.NextOffset).
				WithFix("list the topic again"))
		}
		if cfg.Bounded() != (s.End != stream.Unbounded) {
			errs = append(errs, stream.Errorf(stream.RestoreRefused, "source.end_changed", "restore", of(s).String(),
				"the checkpoint says that it ends at %s, the configuration says %q: the end was fixed at the first start", endOf(s), cfg.End).
				WithFix("use the end the job was started with"))
		}
	}
	return errs
}

func endOf(s *stream.Split) string {
	if s.End == stream.Unbounded {
		return "no offset"
	}
	return fmt.Sprint("offset ", s.End)
}

// checkTopics refuses another topic under the same name, and a topic that has
// fewer partitions than were read.
func checkTopics(known []stream.Split, l *layout, class stream.Class) (errs []error) {
	for i := range known {
		s := &known[i]
		id, ok := l.ids[s.Topic]
		switch {
		case !ok:
		case !id.IsZero() && !s.TopicID.IsZero() && id != s.TopicID:
			errs = append(errs, stream.Errorf(class, "source.topic_recreated", "compare topic", of(s).String(),
				"the topic was deleted and made again: its id was %s and is %s; the records from offset %d of the old one are gone", hexID(s.TopicID), hexID(id), s.NextOffset).
				WithFix("start anew with empty state, if the loss is acceptable"))
		case s.Partition >= l.partitions[s.Topic]:
			// The same topic cannot shrink: a broker that lags behind is more likely.
			errs = append(errs, &notYet{stream.Errorf(class, "source.partitions_shrunk", "compare topic", of(s).String(),
				"the topic has %d partitions now", l.partitions[s.Topic]), missingPatience})
		}
	}
	return errs
}

func hexID(id stream.TopicID) string { return hex.EncodeToString(id[:]) }

// checkPositions refuses positions that the logs do not hold (I14).
func (e *Enumerator) checkPositions(ctx context.Context, known []stream.Split, l *layout) error {
	lg, err := measure(ctx, e.adm, e.cfg.Topics)
	if err != nil {
		return err
	}
	ask := kadm.OffsetForLeaderEpochRequest{}
	for i := range known {
		if err := l.ready(of(&known[i])); err != nil {
			return err
		}
		if known[i].LeaderEpoch >= 0 {
			ask.Add(known[i].Topic, known[i].Partition, known[i].LeaderEpoch)
		}
	}
	var epochs kadm.OffsetsForLeaderEpochs
	if len(ask) > 0 {
		if epochs, err = e.adm.OffsetForLeaderEpoch(ctx, ask); err != nil && len(epochs) == 0 {
			return soon(kafkaconn.Explain(err, "compare leader epochs", access(e.cfg.Topics)...))
		}
	}
	var errs []error
	for i := range known {
		errs = append(errs, checkPosition(&known[i], &lg, epochs))
	}
	return settle(errs)
}

func checkPosition(s *stream.Split, l *logs, epochs kadm.OffsetsForLeaderEpochs) error {
	if s.Finished() {
		return nil // nothing of it is read any more
	}
	start, err1 := at(l.start, of(s))
	end, err2 := at(l.end, of(s))
	if err := settle([]error{err1, err2}); err != nil {
		return err
	}
	if s.NextOffset < start {
		return stream.Errorf(stream.RestoreRefused, "source.position_expired", "restore position", s.String(),
			"the log begins at %d: the records [%d,%d) were deleted before they were read", start, s.NextOffset, start).
			WithFix("raise retention; to go on without them, start anew with empty state")
	}
	if s.LeaderEpoch >= 0 {
		diverged, err := endOfEpoch(s, epochs)
		if err != nil {
			return err
		}
		end = min(end, diverged)
	}
	if s.NextOffset > end { // a leader that just took over may lag for a moment
		return &notYet{stream.Errorf(stream.RestoreRefused, "source.log_truncated", "restore position", s.String(),
			"the log of leader epoch %d ends at %d: what was read from [%d,%d) is not there any more", s.LeaderEpoch, end, end, s.NextOffset).
			WithFix("the brokers lost acknowledged records (unclean leader election, a restored disk): start anew with empty state"), missingPatience}
	}
	return nil
}

// endOfEpoch returns where the records end that the leader has of the epoch the
// position was read in (KIP-320).
func endOfEpoch(s *stream.Split, epochs kadm.OffsetsForLeaderEpochs) (int64, error) {
	answer, ok := epochs[s.Topic][s.Partition]
	switch {
	case !ok:
		return 0, missingAnswer(of(s))
	case answer.Err != nil:
		return 0, soon(kafkaconn.Explain(answer.Err, "compare leader epochs", access([]string{s.Topic})...))
	case answer.EndOffset < 0:
		return math.MaxInt64, nil // it has no memory of the epoch, which proves nothing
	}
	return answer.EndOffset, nil
}
