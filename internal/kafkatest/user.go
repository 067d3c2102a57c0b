package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// createUser stores the SCRAM credentials, which live in the cluster's metadata, and
// returns when a client can log in with them.
func (s *Security) createUser(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		// one at a time: the broker refuses a request that names a user twice
		altered, err := adm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
			{User: User, Password: Password, Mechanism: mechanism, Iterations: 4096},
		})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			return fmt.Errorf("create the SCRAM user: %w", err)
		}
	}
	return s.awaitLogin(ctx)
}

// awaitLogin polls: the controller answers when the credentials are stored, and the broker
// takes them up after that, in the order in which they were.
func (s *Security) awaitLogin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kind.Limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.login(ctx)
		if !errors.Is(err, kerr.SaslAuthenticationFailed) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the SCRAM user does not get in: %w", err)
		case <-tick.C:
		}
	}
}

// login asks the broker one thing as the user that was stored last.
func (s *Security) login(ctx context.Context) error {
	as := scram.Auth{User: User, Pass: Password}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.SASLAddr), kgo.SASL(as.AsSha512Mechanism()))
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.Ping(ctx)
}
