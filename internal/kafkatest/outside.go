package kafkatest

import (
	"context"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Opener makes a client; kafkaconn.Config.NewClient is one.
type Opener func(...kgo.Opt) (*kgo.Client, error)

// Visible returns the records of a topic that committed readers see at the moment: those
// up to the last stable offset of each partition.
//
// A committed reader is not told how far it has come, and the last offsets below that one
// may be rows of a transaction that was aborted, which it never gets. So a reader who sees
// everything looks first for the last thing that the other one will get.
//
// While a partition has no leader, as that of a broker that comes back, it is asked again.
func Visible(ctx context.Context, open Opener, topic string) (records []*kgo.Record, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, err := lastVisible(ctx, open, topic)
	for kerr.IsRetriable(err) && ctx.Err() == nil {
		<-tick.C
		last, err = lastVisible(ctx, open, topic)
	}
	if err != nil {
		return nil, err
	}
	err = read(ctx, open, kgo.ReadCommitted(), topic, last, func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			records = append(records, r)
		}
	})
	return records, err
}

// lastVisible returns the offset of the last record or marker below the last stable offset
// that a committed reader gets, by partition.
func lastVisible(ctx context.Context, open Opener, topic string) (map[int32]int64, error) {
	cl, err := open()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	stable, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = stable.Error() // of a partition: without it its rows would be missing
	}
	if err != nil {
		return nil, err
	}
	// In this order: what is below a last stable offset has its marker below this end.
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	below, newest := map[int32]int64{}, map[int32]int64{}
	stable.Each(func(o kadm.ListedOffset) { below[o.Partition] = o.Offset })
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			newest[o.Partition] = o.Offset - 1
		}
	})
	type producer struct {
		partition int32
		id        int64
	}
	last, undecided := map[int32]int64{}, map[producer]int64{}
	see := func(p int32, offset int64) {
		if have, ok := last[p]; offset < below[p] && (!ok || offset > have) {
			last[p] = offset
		}
	}
	err = read(ctx, open, kgo.ReadUncommitted(), topic, newest, func(r *kgo.Record) {
		from := producer{r.Partition, r.ProducerID}
		switch {
		case r.Attrs.IsControl():
			if offset, ok := undecided[from]; ok && committed(r) {
				see(r.Partition, offset)
			}
			delete(undecided, from)
			see(r.Partition, r.Offset)
		case !r.Attrs.IsTransactional():
			see(r.Partition, r.Offset)
		case r.Offset < below[r.Partition]:
			undecided[from] = r.Offset
		}
	})
	return last, err
}

// committed reports what a control record says (its key is a version and a type; 1 is
// COMMIT, 0 ABORT).
func committed(r *kgo.Record) bool { return len(r.Key) >= 4 && r.Key[3] == 1 }

// read calls f for the records and markers of each partition up to its last offset.
func read(ctx context.Context, open Opener, level kgo.IsolationLevel, topic string, last map[int32]int64, f func(*kgo.Record)) error {
	cl, err := open(kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(10*time.Millisecond), kgo.KeepControlRecords(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	left := maps.Clone(last)
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			return err
		}
		fs.EachRecord(func(r *kgo.Record) {
			end, ok := left[r.Partition]
			if !ok || r.Offset > end {
				return
			}
			if r.Offset == end {
				delete(left, r.Partition)
			}
			f(r)
		})
	}
	return nil
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
