package kafka

import (
	"time"

	"etl/checkpoint"
	"etl/sink"
)

// connector is a Config as a program plugs it in.
type connector struct{ cfg Config }

// New returns the sink as a program plugs it into a pipeline. cfg.Policy and
// cfg.Parallelism must be those of the job.
func New(cfg Config) sink.Connector { return connector{cfg} }

func (c connector) NewWriter() sink.Writer { return NewWriter(c.cfg) }

// NewCommitter returns nil when the mode commits nothing.
func (c connector) NewCommitter() sink.Committer {
	if c.cfg.Policy.WithDefaults().Mode != checkpoint.ExactlyOnce {
		return nil
	}
	return NewCommitter(c.cfg)
}

func (c connector) Features() sink.Features {
	timeout := c.cfg.TransactionTimeout
	if timeout == 0 {
		timeout = defaultTransactionTimeout
	}
	return c.cfg.Features(timeout)
}

// defaultTransactionTimeout is the brokers' default maximum.
const defaultTransactionTimeout = 15 * time.Minute
