package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ready asks the broker for its metadata: a broker of its own must be in it,
// which means that the controller let it in.
func ready(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds(addr)...), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	m, err := kadm.NewClient(cl).BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if len(m.Brokers) == 0 || m.Controller < 0 {
		return errors.New("no live broker in the metadata")
	}
	return nil
}

// NewClient is a client of the plain listener. The caller closes it.
func (s *Server) NewClient(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Seeds()...)}, opts...)...)
}

// CreateTopic makes a topic and returns when every partition has a leader.
// Each config is "key=value".
func (s *Server) CreateTopic(ctx context.Context, name string, partitions int, configs ...string) error {
	cl, err := s.NewClient()
	if err != nil {
		return err
	}
	defer cl.Close()
	settings := map[string]*string{}
	for _, c := range configs {
		k, v, ok := strings.Cut(c, "=")
		if !ok {
			return fmt.Errorf("topic config %q: want key=value", c)
		}
		settings[k] = &v
	}
	adm := kadm.NewClient(cl)
	if err := create(ctx, adm, name, partitions, settings); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return awaitLeaders(ctx, adm, name, partitions)
}

// create asks until there is a broker to take the replica: one whose machine was too busy
// for its heartbeats is fenced, and so not there, until the next of them.
func create(ctx context.Context, adm *kadm.Client, name string, partitions int, settings map[string]*string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := adm.CreateTopic(ctx, int32(partitions), 1, settings, name)
		if !errors.Is(err, kerr.InvalidReplicationFactor) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// awaitLeaders polls: creation returns before the broker has taken up the partitions.
func awaitLeaders(ctx context.Context, adm *kadm.Client, name string, partitions int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := adm.ListEndOffsets(ctx, name)
		if err == nil && ends.Error() == nil && len(ends[name]) == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s has no leaders: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

// TransactionVersion is the cluster's finalized level of transaction.version, 0 when it has none.
func (s *Server) TransactionVersion(ctx context.Context) (int, error) {
	cl, err := s.NewClient()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return int(f.MaxVersionLevel), nil
		}
	}
	return 0, nil
}
