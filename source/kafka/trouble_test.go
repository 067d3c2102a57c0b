package kafka

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// inVirtualTime runs a test on an in-process broker behind an in-memory network,
// where waiting takes no time.
func inVirtualTime(t *testing.T, f func(b *broker)) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		b := &broker{t: t, seeds: c.ListenAddrs(), fake: c, dial: network.DialContext}
		b.adm = kadm.NewClient(b.client())
		f(b)
		for _, end := range b.ends {
			end()
		}
		c.Close()
	})
}

// TestStall: a partition that has records and does not get them is reported, once,
// while the others go on (S24).
func TestStall(t *testing.T) {
	inVirtualTime(t, func(b *broker) {
		topic := b.topic(2)
		var stalls []Stall
		c := b.config(topic, func(c *Config) {
			c.OnStall = func(_ stream.TaskID, s Stall) { stalls = append(stalls, s) }
		})
		r := b.reader(c, b.splits(c, nil))
		b.produce(topic, 0, "a")
		b.produce(topic, 1, "b")
		if l := r.Lag(); l[0].Timestamp != -1 || l[1].Timestamp != -1 {
			b.t.Errorf("lag before the first record: %v", l)
		}
		b.read(r, atLeast(2))
		r.cl.PauseFetchPartitions(map[string][]int32{topic: {1}}) // the client forgets it
		b.produce(topic, 1, "withheld")
		for i := range 30 {
			b.produce(topic, 0, fmt.Sprint(i))
			b.read(r, atLeast(1))
			time.Sleep(5 * time.Second)
		}
		if len(stalls) != 1 || stalls[0].Partition != 1 || stalls[0].NextOffset != 1 || stalls[0].End != 2 || stalls[0].Since < time.Minute || stalls[0].Since > 80*time.Second {
			b.t.Errorf("stalls: %v", stalls)
		}
		lag := r.Lag()
		if lag[0].Records != 0 || lag[1].Records != 1 {
			b.t.Errorf("lag: %v", lag)
		}
		if since := time.Now().UnixMilli() - lag[1].Timestamp; since < 150_000 || since > 170_000 || lag[0].Timestamp-lag[1].Timestamp < 140_000 {
			b.t.Errorf("the last records read: %v, %d ms ago", lag, since)
		}
	})
}

// TestHeldUpTaskIsNoStall: a task that does not ask is held up by its sinks.
func TestHeldUpTaskIsNoStall(t *testing.T) {
	inVirtualTime(t, func(b *broker) {
		topic := b.topic(1)
		stalls := 0
		c := b.config(topic, func(c *Config) { c.OnStall = func(stream.TaskID, Stall) { stalls++ } })
		r := b.reader(c, b.splits(c, nil))
		b.produce(topic, 0, "a")
		b.read(r, atLeast(1))
		b.produce(topic, 0, "b")
		time.Sleep(10 * time.Minute)
		if stalls != 0 {
			b.t.Errorf("%d stalls were reported", stalls)
		}
		b.read(r, atLeast(1))
	})
}

// TestLeaderlessPartition: a partition whose leader is gone is waited for and
// never dropped, at the first start and at a restore (S09).
func TestLeaderlessPartition(t *testing.T) {
	inVirtualTime(t, func(b *broker) {
		topic := b.topic(2)
		c := b.config(topic, from(Latest))
		known := b.splits(c, nil)
		back := time.Now().Add(20 * time.Second)
		b.fake.ControlKey(3, leaderless(b.fake, topic, func() bool { return time.Now().Before(back) }))
		if again := b.splits(c, known); len(again) != 2 {
			b.t.Errorf("the restore has %v", again)
		}
		if time.Now().Before(back) {
			b.t.Error("it did not wait for the leader")
		}
		back = time.Now().Add(time.Second)
		if fresh := b.splits(c, nil); len(fresh) != 2 {
			b.t.Errorf("the fresh start has %v", fresh)
		}
		back = time.Now().Add(time.Hour)
		_, err := b.discover(c, known)
		refused(b.t, err, stream.Restart, "source.leaderless", topic+"/1")
		_, err = b.discover(c, nil)
		refused(b.t, err, stream.Restart, "source.leaderless", topic+"/1")
	})
}

// leaderless makes the metadata say that partition 1 of a topic has no leader.
func leaderless(c *kfake.Cluster, topic string, now func() bool) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !now() {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.MetadataResponse)
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = 0, "localhost", 9092
		resp.Brokers, resp.ControllerID = []kmsg.MetadataResponseBroker{broker}, 0
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = kmsg.StringPtr(topic), c.TopicInfo(topic).TopicID
		for n := range int32(2) {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader = n, 0
			if n == 1 {
				p.Leader, p.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
		return resp, nil, true
	}
}

// TestTruncatedBelow: the log was cut below the position and has grown again; only
// the leader epoch tells (S08, KIP-320).
func TestTruncatedBelow(t *testing.T) {
	inVirtualTime(t, func(b *broker) {
		topic := b.topic(1)
		b.produce(topic, 0, "a", "b", "c", "d")
		c := b.config(topic)
		known := b.splits(c, nil)
		known[0].NextOffset, known[0].LeaderEpoch = 4, 0
		if _, err := b.discover(c, known); err != nil {
			b.t.Fatalf("before the truncation: %v", err)
		}
		b.fake.ControlKey(23, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.fake.KeepControl()
			return epochEnds(kreq.(*kmsg.OffsetForLeaderEpochRequest), 2), nil, true
		})
		_, err := b.discover(c, known)
		refused(b.t, err, stream.RestoreRefused, "source.log_truncated", topic+"/0@4", "[2,4)")
		refused(b.t, b.failing(b.reader(c, known)), stream.DataLoss, "source.log_truncated", topic+"/0@4", "[2,4)")
	})
}

func epochEnds(req *kmsg.OffsetForLeaderEpochRequest, end int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.EndOffset, rp.LeaderEpoch = p.Partition, end, p.LeaderEpoch
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TestDecompressionBomb: a batch that unfolds to more than 64 MiB stops the source
// and names its offset.
func TestDecompressionBomb(t *testing.T) {
	b := newFake(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "200000000"}))
	topic := b.topic(1)
	cl := b.client(kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(100<<20), kgo.BrokerMaxWriteBytes(200<<20))
	b.send(cl, topic, 0, "fine")
	b.send(cl, topic, 0, strings.Repeat("x", 70<<20))
	c := b.config(topic)
	r := b.reader(c, b.splits(c, nil))
	refused(t, b.failing(r), stream.Failed, "source.batch_too_large", topic+"/0@1", "offset 1")
}

// TestDamagedBatch: bytes that are not what was written are never read past.
func TestDamagedBatch(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	b.produce(topic, 0, "a", "b")
	c := b.config(topic)
	splits := b.splits(c, nil)
	b.answerFetches(0, 10, func(int64) []byte { return damaged() })
	refused(t, b.failing(b.reader(c, splits)), stream.Failed, "source.unreadable", topic+"/0@0")
}

// TestMissingRights: what the principal may not do is named.
func TestMissingRights(t *testing.T) {
	b := newFake(t, kfake.EnableACLs(), kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "reader", "secret"), kfake.SeedTopics(1, "guarded"))
	c := Config{Topics: []string{"guarded"}, Cluster: kafkaconn.Config{SeedBrokers: b.seeds, SASL: &kafkaconn.SASL{Mechanism: kafkaconn.Plain, Username: "reader", Password: "secret"}}}.WithDefaults()
	_, err := b.discover(c, nil)
	refused(t, err, stream.Environment, "kafka.acl", "DESCRIBE on topic guarded")
	r := b.reader(c, []stream.Split{{Topic: "guarded", LeaderEpoch: -1, End: stream.Unbounded}})
	refused(t, b.failing(r), stream.Environment, "kafka.acl", "guarded")
}

// TestProblems: everything that is wrong is said at once.
func TestProblems(t *testing.T) {
	good := Config{Topics: []string{"a"}, Cluster: kafkaconn.Config{SeedBrokers: []string{"localhost:9092"}}}
	for want, change := range map[string]func(*Config){
		"no seed broker":     func(c *Config) { c.Cluster.SeedBrokers = nil },
		"no topic":           func(c *Config) { c.Topics = nil },
		"given twice":        func(c *Config) { c.Topics = []string{"a", "a"} },
		"Kafka allows":       func(c *Config) { c.Topics = []string{"a b"} },
		"is not one of":      func(c *Config) { c.Start = "committed" },
		"0 topics":           func(c *Config) { c.Start = Exact },
		"1 topics":           func(c *Config) { c.EndOffsets = Offsets{"a": {0: 1}} },
		"is not in topics":   func(c *Config) { c.Start, c.StartOffsets = Exact, Offsets{"b": {0: 1}} },
		"neither can be":     func(c *Config) { c.End, c.EndOffsets = Exact, Offsets{"a": {0: -1}} },
		"is not read_commit": func(c *Config) { c.Isolation = "serializable" },
		"max_bytes":          func(c *Config) { c.FetchMaxBytes, c.FetchMaxPartitionBytes = 10, 20 },
		"batch records":      func(c *Config) { c.BatchRecords = -1 },
		"stall_after":        func(c *Config) { c.StallAfter = time.Millisecond },
	} {
		c := good
		change(&c)
		c = c.WithDefaults()
		errs := fmt.Sprint(c.Problems())
		if !strings.Contains(errs, want) {
			t.Errorf("%s: not among %s", want, errs)
		}
	}
	c := good.WithDefaults()
	if errs := c.Problems(); len(errs) > 0 {
		t.Errorf("a good configuration: %v", errs)
	}
	c.Topics, c.Isolation = nil, "x"
	if errs := c.Problems(); len(errs) != 2 {
		t.Errorf("two problems: %v", errs)
	}
}

// TestPointsArePassed: every fault point of the table exists.
func TestPointsArePassed(t *testing.T) {
	seen := map[string]bool{}
	fault.Watch(func(name string) { seen[name] = true })
	defer fault.Watch(nil)
	b := newFake(t)
	topic := b.topic(1)
	c := b.config(topic, until(Latest), group("g"))
	e := b.enumerator(c)
	splits, err := e.Discover(b.ctx(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, splits = b.drain(c, splits)
	if err := e.Report(b.ctx(), checkpoint.Permit{}, splits); err != nil {
		t.Fatal(err)
	}
	for p := range Points {
		if !seen[p] {
			t.Errorf("%s is in the table and was not passed", p)
		}
	}
}
