package checkpoint

import (
	"fmt"
	"time"

	"etl/stream"
)

// Mode is the guarantee the checkpoints of a job give.
type Mode string

// The modes.
const (
	ExactlyOnce Mode = "exactly_once"
	// AtLeastOnce does not align barriers; sinks flush before the barrier.
	AtLeastOnce Mode = "at_least_once"
	// None takes no checkpoints: at most once.
	None Mode = "none"
)

// Policy is when checkpoints are taken and what may go wrong. The zero value of
// a field means its default.
type Policy struct {
	Mode Mode // default exactly_once
	// Interval is the time between triggers; default 10s.
	Interval time.Duration
	// MinPause is the rest after the last checkpoint ended; default 1s, and 0 when
	// MaxConcurrent is more than 1.
	MinPause time.Duration
	// Timeout is when a checkpoint is given up; default 2m.
	Timeout time.Duration
	// MaxConcurrent is the number of checkpoints under way at once; default 1.
	MaxConcurrent int
	// TolerableFailures is the number of consecutive aborted checkpoints that do
	// not fail the job; default 3. NoFailures means none.
	TolerableFailures int
	// Retain is the number of completed checkpoints kept; default 3, at least 2.
	Retain int
	// Drain is how far away the deadline of every listed committable must be at
	// publication (I9); the job computes it from the sinks' timeouts.
	Drain time.Duration
}

// NoFailures as Policy.TolerableFailures tolerates none.
const NoFailures = -1

// NoPause as Policy.MinPause takes no rest.
const NoPause time.Duration = -1

// WithDefaults returns p with its zero fields filled in.
func (p Policy) WithDefaults() Policy {
	if p.Mode == "" {
		p.Mode = ExactlyOnce
	}
	p.Interval = orDuration(p.Interval, 10*time.Second)
	p.Timeout = orDuration(p.Timeout, 2*time.Minute)
	if p.MaxConcurrent == 0 {
		p.MaxConcurrent = 1
	}
	if p.MinPause == 0 && p.MaxConcurrent == 1 {
		p.MinPause = time.Second
	}
	if p.MinPause < 0 {
		p.MinPause = 0
	}
	switch p.TolerableFailures {
	case 0:
		p.TolerableFailures = 3
	case NoFailures:
		p.TolerableFailures = 0
	}
	if p.Retain == 0 {
		p.Retain = 3
	}
	return p
}

func orDuration(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// MinDrain is the least time an outage after publication must be given.
const MinDrain = 60 * time.Second

// WorstAge returns how old a transaction can be when its checkpoint is published
// at last: every tolerable failure before it, each as long as it can be
// (docs/pipeline-file.md, Guarantees). p has its defaults.
func (p Policy) WorstAge() time.Duration {
	round := max(p.Interval, p.Timeout+p.MinPause)
	return time.Duration(p.TolerableFailures+1)*round + p.Timeout
}

// DrainFor returns the outage that loses nothing under a transaction timeout, or
// refuses with the numbers when less than MinDrain is left.
func (p Policy) DrainFor(transactionTimeout time.Duration) (time.Duration, error) {
	drain := transactionTimeout - p.WorstAge()
	if drain >= MinDrain {
		return drain, nil
	}
	return 0, stream.Errorf(stream.BadConfig, "checkpoint.transaction_too_short", "plan", "transaction timeout "+transactionTimeout.String(),
		"a transaction can be %v old when its checkpoint is published: (tolerable_failures %d + 1) x max(interval %v, timeout %v + min_pause %v) + timeout %v; %v is left for an outage, at least %v is needed",
		p.WorstAge(), p.TolerableFailures, p.Interval, p.Timeout, p.MinPause, p.Timeout, drain, MinDrain).
		WithFix("lower checkpoint.timeout, interval or tolerable_failures, or raise transaction_timeout and the broker's transaction.max.timeout.ms")
}

// Problems returns everything that is wrong with p, which has its defaults.
func (p Policy) Problems() (errs []error) {
	bad := func(code, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "checkpoint."+code, "", "", format, args...).WithFix("%s", fix))
	}
	switch p.Mode {
	case ExactlyOnce, AtLeastOnce, None:
	default:
		bad("mode", "write one of them", "mode %q is not exactly_once, at_least_once or none", p.Mode)
	}
	if p.Interval <= 0 {
		bad("interval", "write 10s, or remove it", "interval %v must be positive", p.Interval)
	}
	if p.Timeout <= 0 {
		bad("timeout", "write 2m, or remove it", "timeout %v must be positive", p.Timeout)
	}
	if p.MinPause > p.Timeout {
		bad("min_pause", "lower min_pause, or raise timeout", "min_pause %v is longer than timeout %v", p.MinPause, p.Timeout)
	}
	if p.MaxConcurrent < 1 {
		bad("max_concurrent", "write 1, or remove it", "max_concurrent %d must be at least 1", p.MaxConcurrent)
	}
	if p.MaxConcurrent > 1 && p.Mode != ExactlyOnce {
		bad("max_concurrent", "remove max_concurrent, or set mode: exactly_once", "max_concurrent %d needs mode exactly_once: without alignment a barrier can overtake an earlier one", p.MaxConcurrent)
	}
	if p.MaxConcurrent > 1 && p.MinPause > 0 {
		bad("max_concurrent", "remove one of the two", "max_concurrent %d and min_pause %v exclude each other", p.MaxConcurrent, p.MinPause)
	}
	if p.TolerableFailures < 0 {
		bad("tolerable_failures", "write 0 or more", "tolerable_failures %d must not be negative", p.TolerableFailures)
	}
	if p.Retain < 2 {
		bad("retain", "write 2 or more", "retain %d must be at least 2: a sink may have lost the newest one", p.Retain)
	}
	return errs
}

// String returns the policy in one line.
func (p Policy) String() string {
	return fmt.Sprintf("%s every %v, timeout %v, min_pause %v, tolerable_failures %d", p.Mode, p.Interval, p.Timeout, p.MinPause, p.TolerableFailures)
}
