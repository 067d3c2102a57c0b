package testservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Service is one server that a test can treat badly.
type Service interface {
	// Kill sends SIGKILL to the whole server and returns when it is down.
	Kill(context.Context) error
	// Restart starts a server that was killed: same data, same ports. It does
	// not wait until the server is ready.
	Restart(context.Context) error
	// Pause freezes the server: connections stay open and nothing answers.
	Pause(context.Context) error
	Unpause(context.Context) error
	// Alive says whether the server's process runs, frozen or not.
	Alive(context.Context) bool
	// Log is the newest part of what the server wrote, for a failed test.
	Log() string
	// Stop ends the server and removes all that it left.
	Stop() error
}

// ErrForeign is the answer of a server that somebody else runs to everything
// that would disturb it.
var ErrForeign = errors.New("this server was named in the environment and is not ours to kill or freeze")

// Foreign is a server that somebody else runs.
type Foreign struct{}

func (Foreign) Kill(context.Context) error    { return ErrForeign }
func (Foreign) Restart(context.Context) error { return ErrForeign }
func (Foreign) Pause(context.Context) error   { return ErrForeign }
func (Foreign) Unpause(context.Context) error { return ErrForeign }
func (Foreign) Alive(context.Context) bool    { return true }
func (Foreign) Log() string                   { return "(the log is with whoever runs the server)" }
func (Foreign) Stop() error                   { return nil }

// Await calls probe until it succeeds. It gives up when the context ends, when
// limit has passed, or when the server died, with the newest part of its log.
func Await(ctx context.Context, s Service, limit time.Duration, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within %v", limit))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probeOnce(ctx, probe)
		if err == nil {
			return nil
		}
		if !s.Alive(ctx) && ctx.Err() == nil {
			return fmt.Errorf("the server ended; its log:\n%s", s.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w; its log:\n%s", context.Cause(ctx), err, s.Log())
		case <-tick.C:
		}
	}
}

// probeOnce bounds one try: a server that accepts and never answers must not use up the limit.
func probeOnce(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return probe(ctx)
}

// Cache is the folder that scripts/setup-test-services.sh fills. scripts/common.sh computes the same path.
func Cache() (string, error) {
	if dir := os.Getenv("ETL_TEST_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for the test services: %w", err)
	}
	return filepath.Join(dir, "etl-test"), nil
}
