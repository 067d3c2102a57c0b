package testservice

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go/log"
)

// engine remembers the answer to "is there a Docker engine?" for this process.
var engine struct {
	once sync.Once
	err  error
}

// engineErr is nil when a Docker engine answers. It tries the caller's own
// (DOCKER_HOST, else the default socket), then the private one that
// scripts/dockerd.sh starts, and leaves DOCKER_HOST set to that one: this is
// where testcontainers-go looks.
func engineErr(ctx context.Context) error {
	engine.once.Do(func() {
		engine.err = findEngine(ctx)
		if engine.err == nil {
			// The reaper is an image from a registry; our watcher does its work.
			engine.err = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
			log.SetDefault(log.NewNoopLogger())
		}
	})
	return engine.err
}

func findEngine(ctx context.Context) error {
	first := ping(ctx, client.FromEnv)
	if first == nil || os.Getenv("DOCKER_HOST") != "" {
		return first
	}
	cache, err := Cache()
	if err != nil {
		return first
	}
	socket := filepath.Join(cache, "docker", "docker.sock")
	if _, err := os.Stat(socket); err != nil {
		return first
	}
	host := "unix://" + socket
	if err := ping(ctx, client.WithHost(host)); err != nil {
		return first
	}
	return os.Setenv("DOCKER_HOST", host)
}

func ping(ctx context.Context, opt client.Opt) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := client.New(opt)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Ping(ctx, client.PingOptions{}); err != nil {
		return fmt.Errorf("no Docker engine answers: %w", err)
	}
	return nil
}
