package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// What the brokers keep, short enough that a jump of an hour outlasts it. The
// retention of offsets is the longest, so that each can be outlasted alone.
const (
	transactionTimeout = 2 * time.Minute
	idExpiration       = 20 * time.Minute
	offsetsRetention   = time.Hour
)

// inPartitions is the number of partitions of the input at first, outPartitions
// that of the output: inputs may grow.
const (
	inPartitions  = 3
	outPartitions = 5
)

func (s *sim) startBrokers() {
	ports := []int{9092, 9093, 9094}[:s.plan.brokers]
	opts := []kfake.Opt{
		kfake.NumBrokers(len(ports)), kfake.Ports(ports...), kfake.ListenFn(s.net.Listen),
		kfake.SeedTopics(inPartitions, "in"), kfake.SeedTopics(outPartitions, "out", "copy"),
		kfake.BrokerConfigs(map[string]string{
			"transactional.id.expiration.ms":      fmt.Sprint(idExpiration.Milliseconds()),
			"offsets.retention.minutes":           fmt.Sprint(int(offsetsRetention.Minutes())),
			"offsets.retention.check.interval.ms": fmt.Sprint(time.Minute.Milliseconds()),
		}),
	}
	if s.plan.old {
		opts = append(opts, kfake.MaxVersions(kversion.V3_9_0()))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cluster, s.seeds = c, c.ListenAddrs()
}

// client returns a client of the test's own, on a network without weather.
func (s *sim) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.seeds...), kgo.Dialer(s.net.DialContext), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return cl
}

// trouble is an answer that a broker may give at any time, and that a client has
// to survive: by asking again, or by ending the attempt.
type trouble struct {
	key kmsg.Key
	err *kerr.Error
	// ends: the attempt cannot go on.
	ends bool
	// top: the code goes into the answer as a whole.
	top bool
}

// REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND come after the work is
// done, everything else before.
var troubles = []trouble{
	{key: kmsg.EndTxn, err: kerr.CoordinatorLoadInProgress, top: true},
	{key: kmsg.EndTxn, err: kerr.NotCoordinator, top: true},
	{key: kmsg.EndTxn, err: kerr.ConcurrentTransactions, top: true},
	{key: kmsg.EndTxn, err: kerr.UnknownServerError, top: true},
	{key: kmsg.InitProducerID, err: kerr.ConcurrentTransactions, top: true},
	{key: kmsg.InitProducerID, err: kerr.CoordinatorNotAvailable, top: true},
	{key: kmsg.TxnOffsetCommit, err: kerr.CoordinatorLoadInProgress},
	{key: kmsg.TxnOffsetCommit, err: kerr.RequestTimedOut},
	{key: kmsg.Produce, err: kerr.NotLeaderForPartition},
	{key: kmsg.Produce, err: kerr.RequestTimedOut},
	{key: kmsg.Produce, err: kerr.NotEnoughReplicasAfterAppend},
	{key: kmsg.Fetch, err: kerr.NotLeaderForPartition},
	{key: kmsg.ListOffsets, err: kerr.NotLeaderForPartition},
	{key: kmsg.OffsetFetch, err: kerr.CoordinatorLoadInProgress},
	{key: kmsg.DescribeTransactions, err: kerr.CoordinatorLoadInProgress},
	{key: kmsg.DescribeProducers, err: kerr.NotLeaderForPartition},
	{key: kmsg.Produce, err: kerr.InvalidRecord, ends: true},
	{key: kmsg.Produce, err: kerr.InvalidRecord, ends: true},
	{key: kmsg.TxnOffsetCommit, err: kerr.TransactionAbortable, ends: true},
	{key: kmsg.TxnOffsetCommit, err: kerr.UnknownTopicID, ends: true},
}

// fatal is how many of them, the last ones, end the attempt.
const fatal = 4

// gremlin makes the brokers fail now and then until it is stopped.
type gremlin struct {
	s    *sim
	r    *rand.Rand
	stop chan struct{}
	done sync.WaitGroup
	last *kfake.FaultHandle
}

func (s *sim) release() *gremlin {
	g := &gremlin{s: s, r: s.rand("gremlin"), stop: make(chan struct{})}
	if s.plan.gremlin > 0 {
		g.done.Go(g.run)
	}
	if s.plan.blackout {
		g.done.Go(g.blackout)
	}
	return g
}

// blackout is a coordinator that loads for longer than a commit has patience.
func (g *gremlin) blackout() {
	pause(400 * time.Millisecond)
	h := g.s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.CoordinatorLoadInProgress, TopLevel: true, Count: -1, When: ofTheJob})
	defer h.Remove()
	select {
	case <-g.stop:
	case <-time.After(50 * time.Second):
	}
	g.s.cov.add("brokers/no commits for a while")
}

func (g *gremlin) run() {
	for {
		select {
		case <-g.stop:
			return
		case <-time.After(time.Duration(g.r.Int64N(int64(g.s.plan.gremlin)))):
		}
		if g.s.running.Load() > 0 {
			g.act()
			continue
		}
		select {
		case <-g.stop:
			return
		case <-time.After(10 * time.Second): // the job is down, perhaps for long
		}
	}
}

// act takes back what was not met and thinks of something new.
func (g *gremlin) act() {
	if g.last != nil {
		g.last.Remove()
	}
	if g.s.plan.brokers > 1 {
		switch g.r.IntN(10) {
		case 0:
			g.s.cluster.RehashCoordinators()
			g.s.cov.add("brokers/coordinators moved")
			return
		case 1:
			g.s.cluster.ShufflePartitionLeaders()
			g.s.cov.add("brokers/leaders moved")
			return
		}
	}
	t := troubles[g.r.IntN(len(troubles))]
	if g.r.IntN(4) == 0 {
		t = troubles[len(troubles)-1-g.r.IntN(fatal)]
	}
	f := kfake.Fault{Keys: []kmsg.Key{t.key}, Err: t.err, TopLevel: t.top, Count: 1 + g.r.IntN(2)}
	if t.ends {
		f.Count = 1
	}
	if t.key == kmsg.Produce {
		f.Topic = g.s.outlets[g.r.IntN(len(g.s.outlets))].topic
	}
	f.When = ofTheJob
	g.last = g.s.cluster.Fault(f)
	g.s.cov.add("brokers/" + t.key.Name() + " " + t.err.Message)
}

// ofTheJob leaves the producers of the input alone.
func ofTheJob(r kmsg.Request) bool {
	var txid *string
	switch r := r.(type) {
	case *kmsg.EndTxnRequest:
		txid = &r.TransactionalID
	case *kmsg.InitProducerIDRequest:
		txid = r.TransactionalID
	default:
		return true
	}
	return txid != nil && strings.HasPrefix(*txid, "etl.")
}

// calm ends all trouble.
func (g *gremlin) calm() {
	select {
	case <-g.stop:
		return
	default:
	}
	close(g.stop)
	g.done.Wait()
	if g.last != nil {
		g.last.Remove()
	}
}
