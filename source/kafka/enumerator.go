package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/source"
	"etl/stream"
)

// Enumerator finds the splits of a source. See source.Enumerator; Report may run
// beside the other calls.
type Enumerator struct {
	cfg     Config
	env     stream.Env
	cl      *kgo.Client
	adm     *kadm.Client
	started bool // the first Discover succeeded
}

var _ source.Enumerator = (*Enumerator)(nil)

// NewEnumerator returns the enumerator of a source; cfg has no Problems.
func NewEnumerator(cfg Config) *Enumerator { return &Enumerator{cfg: cfg.WithDefaults()} }

// Open makes the client. It does not wait for a broker.
func (e *Enumerator) Open(_ context.Context, env stream.Env) (err error) {
	e.env = env
	if e.cl, err = newClient(&e.cfg, &env); err == nil {
		e.adm = kadm.NewClient(e.cl)
	}
	return err
}

// newClient returns a client of the source's cluster in the world of env.
func newClient(cfg *Config, env *stream.Env, more ...kgo.Opt) (*kgo.Client, error) {
	c := cfg.Cluster
	if c.Dial == nil {
		c.Dial = env.Dial
	}
	if c.Log == nil {
		c.Log = env.Log
	}
	return c.NewClient(more...)
}

// Close ends the client.
func (e *Enumerator) Close() error {
	if e.cl != nil {
		e.cl.Close()
	}
	return nil
}

// Discover returns the splits that are not in known. The first call of an
// enumerator waits for brokers and leaders, and compares restored positions with
// the logs; later ones look once, and an answer that may be another one soon is an
// error of class Retry.
func (e *Enumerator) Discover(ctx context.Context, known []stream.Split) (add []stream.Split, err error) {
	if e.started {
		return e.again(ctx, known)
	}
	err = patiently(ctx, e.env.Clock, func() (err error) {
		if len(known) == 0 {
			add, err = e.fresh(ctx)
		} else {
			add, err = e.restored(ctx, known)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.started = true
	return add, nil
}

// again looks for partitions that were added while the job runs.
func (e *Enumerator) again(ctx context.Context, known []stream.Split) ([]stream.Split, error) {
	l, err := look(ctx, e.adm, e.cfg.Topics)
	if err == nil {
		err = settle(checkTopics(known, l, stream.DataLoss))
	}
	var add []stream.Split
	if err == nil {
		add, err = e.added(ctx, known, l)
	}
	var n *notYet
	if errors.As(err, &n) {
		later := *n.err
		later.Class = stream.Retry
		return nil, &later
	}
	return add, err
}

// fresh resolves the start and the end of every partition there is (I14).
func (e *Enumerator) fresh(ctx context.Context) (add []stream.Split, err error) {
	l, err := look(ctx, e.adm, e.cfg.Topics)
	if err != nil {
		return nil, err
	}
	lg, err := measure(ctx, e.adm, e.cfg.Topics)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, topic := range e.cfg.Topics {
		for n := range l.partitions[topic] {
			p := tp{topic, n}
			if err := l.ready(p); err != nil {
				return nil, err // never begin without it: later it would count as new
			}
			s, err := resolve(&e.cfg, p, &lg)
			s.TopicID = l.ids[topic]
			add, errs = append(add, s), append(errs, err)
		}
	}
	errs = append(errs, unknownOffsets(&e.cfg, l)...)
	slices.SortFunc(add, stream.CompareSplits)
	return add, settle(errs)
}

// restored compares known with the brokers, and looks for partitions that were
// added while the job was down.
func (e *Enumerator) restored(ctx context.Context, known []stream.Split) ([]stream.Split, error) {
	if err := settle(checkConfig(&e.cfg, known)); err != nil {
		return nil, err
	}
	l, err := look(ctx, e.adm, e.cfg.Topics)
	if err != nil {
		return nil, err
	}
	if err := settle(checkTopics(known, l, stream.RestoreRefused)); err != nil {
		return nil, err
	}
	if err := e.checkPositions(ctx, known, l); err != nil {
		return nil, err
	}
	return e.added(ctx, known, l)
}

// added returns the partitions that are not in known. They begin at the beginning
// of their logs; a bounded read does not take them up, since its end was fixed at
// the first start. One that has no leader yet is found the next time.
func (e *Enumerator) added(ctx context.Context, known []stream.Split, l *layout) (add []stream.Split, err error) {
	if e.cfg.Bounded() {
		return nil, nil
	}
	have := map[tp]bool{}
	for i := range known {
		have[of(&known[i])] = true
	}
	var start kadm.ListedOffsets
	for _, topic := range e.cfg.Topics {
		for n := range l.partitions[topic] {
			p := tp{topic, n}
			if have[p] || l.leaderless[p] != nil {
				continue
			}
			if start == nil {
				if start, err = e.adm.ListStartOffsets(ctx, e.cfg.Topics...); err != nil && len(start) == 0 {
					return nil, soon(err)
				}
			}
			from, err := at(start, p)
			if err != nil {
				return nil, err
			}
			add = append(add, stream.Split{Topic: topic, TopicID: l.ids[topic], Partition: n, NextOffset: from, LeaderEpoch: -1, End: stream.Unbounded})
		}
	}
	slices.SortFunc(add, stream.CompareSplits)
	return add, nil
}
