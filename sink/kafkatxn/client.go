package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// Options describe a Client.
type Options struct {
	Conn  kafkaconn.Config // its Dial and Log default to those of World
	World stream.World
	Names Names
	// Topics are all topics the sink may write to; the first carries the markers.
	Topics []string
	// Timeout is the transaction timeout of the sink, see [Timeout].
	Timeout time.Duration
	// AcceptForeign lets a fresh lineage start beside markers of another one.
	AcceptForeign bool
}

// Client sends the raw calls of this package for one sink. It is safe for concurrent
// use. None of its kgo clients is transactional: a client that is would re-initialise
// its id, and so abort, at the wrong moment.
type Client struct {
	o Options
	// TV is the cluster's transaction version when the client was opened.
	TV     int16
	Limits kafkaconn.Limits

	patience time.Duration // with one Commit
	mu       sync.Mutex
	raw      map[bool]*kgo.Client // by "transaction version 2"
	topics   map[string]kafkaconn.TopicInfo
}

const (
	// tryTimeout bounds one try of one request.
	tryTimeout = 5 * time.Second
	// askPatience is how long a question is repeated: a broker that was killed is
	// back after 7 to 16 seconds, and its coordinators a little later.
	askPatience = time.Minute
)

// Open connects and reads what the cluster allows.
func Open(ctx context.Context, o Options) (*Client, error) {
	if o.Conn.Dial == nil {
		o.Conn.Dial = o.World.Dial
	}
	if o.Conn.Log == nil {
		o.Conn.Log = o.World.Log
	}
	c := &Client{o: o, patience: commitPatience, raw: map[bool]*kgo.Client{}, topics: map[string]kafkaconn.TopicInfo{}}
	if err := c.open(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) open(ctx context.Context) (err error) {
	cl, err := c.client(2)
	if err != nil {
		return err
	}
	if c.TV, err = kafkaconn.TransactionVersion(ctx, cl); err != nil {
		return err
	}
	if c.Limits, err = kafkaconn.ReadLimits(ctx, cl); err != nil {
		return err
	}
	_, err = c.Refresh(ctx)
	return err
}

// SetTimeout sets the transaction timeout once it is known; before the client is used.
func (c *Client) SetTimeout(d time.Duration) { c.o.Timeout = d }

// Close ends the connections. It touches no transaction.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.raw {
		cl.Close()
	}
	clear(c.raw)
}

// Timeout returns the transaction timeout to use under a cluster's limits. 0 asks for
// the default: 15 minutes, or the broker's maximum when that is less.
func Timeout(asked time.Duration, l kafkaconn.Limits) (time.Duration, error) {
	switch {
	case asked == 0:
		return min(15*time.Minute, l.TransactionTimeout), nil
	case l.Known && asked > l.TransactionTimeout:
		return 0, stream.Errorf(stream.BadConfig, "kafka.timeout_above_broker_maximum", "plan", "transaction_timeout "+asked.String(),
			"the brokers allow %v (transaction.max.timeout.ms=%d)", l.TransactionTimeout, l.TransactionTimeout.Milliseconds()).
			WithFix("lower transaction_timeout, or raise transaction.max.timeout.ms on every broker and restart them")
	}
	return asked, nil
}

// Caps returns the option that keeps a client to the requests of a transaction
// version. kgo sends the newest version a broker knows, whatever the cluster's feature
// level, and requests of both kinds must not be mixed on one transaction.
func Caps(tv int16) kgo.Opt {
	v := kversion.Stable()
	if tv < 2 {
		v.SetMaxKeyVersion(int16(kmsg.Produce), 11)
		v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
		v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	}
	return kgo.MaxVersions(v)
}

// client returns the client whose requests are those of transaction version tv.
func (c *Client) client(tv int16) (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tv >= 2
	if cl := c.raw[key]; cl != nil {
		return cl, nil
	}
	cl, err := c.o.Conn.NewClient(Caps(tv), kgo.RetryTimeout(tryTimeout), kgo.WithHooks(sentHook{}))
	if err != nil {
		return nil, err
	}
	c.raw[key] = cl
	return cl, nil
}

// sentHook passes the point between a request and its answer.
type sentHook struct{}

func (sentHook) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil && key == int16(kmsg.EndTxn) {
		fault.Point("kafka.endtxn.sent")
	}
}

// admin returns an admin client for questions.
func (c *Client) admin() (*kadm.Client, error) {
	cl, err := c.client(2)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(cl), nil
}

// Refresh asks about all topics again: settings change, and partitions are added.
func (c *Client) Refresh(ctx context.Context) ([]kafkaconn.TopicInfo, error) {
	infos := make([]kafkaconn.TopicInfo, len(c.o.Topics))
	for i, name := range c.o.Topics {
		info, err := c.readTopic(ctx, name)
		if err != nil {
			return nil, err
		}
		infos[i] = info
	}
	return infos, nil
}

// topic returns what is known about a topic, or asks.
func (c *Client) topic(ctx context.Context, name string) (kafkaconn.TopicInfo, error) {
	c.mu.Lock()
	info, ok := c.topics[name]
	c.mu.Unlock()
	if ok {
		return info, nil
	}
	return c.readTopic(ctx, name)
}

func (c *Client) readTopic(ctx context.Context, name string) (info kafkaconn.TopicInfo, err error) {
	cl, err := c.client(2)
	if err != nil {
		return info, err
	}
	err = c.ask(ctx, "describe topic "+name, nil, func(ctx context.Context) error {
		infos, err := kafkaconn.ReadTopics(ctx, cl, name)
		if err == nil {
			info = infos[0]
		}
		return err
	})
	if err == nil {
		c.mu.Lock()
		c.topics[name] = info
		c.mu.Unlock()
	}
	return info, err
}

// ask repeats a question that changes nothing until it has an answer: through
// restarts of brokers and moves of leaders and coordinators. needs are the rights the
// question takes.
func (c *Client) ask(ctx context.Context, op string, needs []kafkaconn.Access, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		err := try(ctx, f)
		if err == nil || !passing(err) {
			return kafkaconn.Explain(err, op, needs...)
		}
		if c.o.World.Clock.Sleep(ctx, wait) != nil {
			return noAnswer(ctx, op, err)
		}
	}
}

func try(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return f(ctx)
}

// passing reports whether an error may go away by itself. What is explained already
// (a topic that does not exist) was judged by somebody who knew more.
func passing(err error) bool {
	var known *stream.Error
	switch {
	case errors.As(err, &known):
		return known.Class == stream.Retry
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kerr.ConcurrentTransactions), kerr.IsRetriable(err):
		return true
	}
	return stream.ClassOf(kafkaconn.Explain(err, "")) == stream.Retry
}

// noAnswer is the error when patience is over. The job restarts, or the caller asks
// again: nothing changed.
func noAnswer(ctx context.Context, op string, last error) error {
	return stream.Errorf(stream.Retry, "kafka.no_answer", op, "", "%w; the last answer was: %w", context.Cause(ctx), last)
}

// repeated sends a request until its verdict is definite. code is the answer's error
// code; a failed try counts as Again. err is nil for Done only, and explained.
func (c *Client) repeated(ctx context.Context, op string, needs []kafkaconn.Access, judge func(int16) Verdict, send func(context.Context) (int16, error)) (Verdict, error) {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		v, err := once(ctx, judge, send)
		switch v {
		case Done:
			return Done, nil
		case Final:
			return Final, fmt.Errorf("%s: %w", op, err)
		case Refused:
			return Refused, kafkaconn.Explain(err, op, needs...)
		}
		if c.o.World.Clock.Sleep(ctx, wait) != nil {
			return Again, noAnswer(ctx, op, err)
		}
	}
}

func once(ctx context.Context, judge func(int16) Verdict, send func(context.Context) (int16, error)) (Verdict, error) {
	var code int16
	err := try(ctx, func(ctx context.Context) (err error) {
		code, err = send(ctx)
		return err
	})
	if err != nil {
		return Again, err
	}
	return judge(code), kerr.ErrorForCode(code)
}
