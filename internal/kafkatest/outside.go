package kafkatest

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reading are the options of a client for [Visible].
func Reading(topic string) []kgo.Opt {
	return []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(10 * time.Millisecond), kgo.KeepControlRecords(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
}

// Visible returns the records of a topic that committed readers see at the moment: those
// up to the last stable offset of each partition. cl is made with Reading, for this one
// call.
func Visible(ctx context.Context, cl *kgo.Client, topic string) (records []*kgo.Record, err error) {
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			return nil, err
		}
		fs.EachRecord(func(r *kgo.Record) {
			if end, ok := left[r.Partition]; !ok || r.Offset >= end {
				return
			}
			if r.Offset == left[r.Partition]-1 {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	return records, nil
}

// Ongoing lists the transactional ids that have an open transaction and that ours says
// yes to.
func Ongoing(ctx context.Context, cl *kgo.Client, ours func(id string) bool) (ids []string, err error) {
	listed, err := kadm.NewClient(cl).ListTransactions(ctx, nil, []string{"Ongoing"})
	for id, l := range listed {
		if l.State == "Ongoing" && ours(id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}
