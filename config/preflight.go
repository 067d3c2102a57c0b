package config

import (
	"context"
	"errors"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// MaxCheckpointAge is the age of the last completed checkpoint from which on the
// job is not healthy: every tolerable failure has been used. 0: any age is fine.
func (j *Job) MaxCheckpointAge() time.Duration {
	if j.Policy.Mode == checkpoint.None {
		return 0
	}
	return j.Policy.WorstAge() + j.Policy.Interval
}

// Preflight connects to the servers of the job and checks what only they know. It
// returns problems at the keys they are about, and corrects the policy's drain by
// the transaction timeouts that are really used. It changes nothing outside.
func (j *Job) Preflight(ctx context.Context, w stream.World) Problems {
	b := j.build()
	b.problems, b.omitted, b.unusable = nil, [2]int{}, nil
	for _, to := range b.connections {
		to.away = false
	}
	for _, c := range j.Components {
		if c.parts.Preflight == nil || c.unasked() {
			continue
		}
		f, err := c.parts.Preflight(ctx, w)
		if err != nil {
			c.found(Found{Err: err})
		}
		for _, p := range f.Found {
			c.found(p)
		}
		if f.Notes != nil {
			c.parts.Notes = f.Notes
		}
		if f.TransactionTimeout > 0 && c.parts.Sink != nil {
			c.parts.Sink.Features.Timeout = f.TransactionTimeout
		}
	}
	b.result.Policy.Drain = 0
	b.checkTimeouts()
	return b.all()
}

// lacking is err as the end of a start: what a running job would try again is here
// a server that is missing (exit 3).
func lacking(err error) error {
	var e *stream.Error
	if !errors.As(err, &e) || e.Class != stream.Retry {
		return err
	}
	c := *e
	c.Class = stream.Environment
	return &c
}
