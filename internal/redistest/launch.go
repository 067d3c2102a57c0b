package redistest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"

	"etl/internal/testservice"
)

// launch starts the server's process or container, ready or not, and says its address.
func (c Config) launch(ctx context.Context, via testservice.Via) (testservice.Service, string, error) {
	port, err := testservice.FreePort()
	if err != nil {
		return nil, "", err
	}
	service, err := testservice.Launch(ctx, via,
		func() testservice.ContainerSpec { return c.container(port) },
		func() (testservice.ProcessSpec, error) { return c.process(port) })
	return service, "redis://" + testservice.Loopback(port) + "/0", err
}

// container keeps to what the official image understands.
func (c Config) container(port int) testservice.ContainerSpec {
	return testservice.ContainerSpec{
		Image: cmp.Or(os.Getenv("ETL_TEST_REDIS_IMAGE"), "etl-test/redis:local"),
		Cmd:   append([]string{"redis-server", "--protected-mode", "no"}, c.arguments()...),
		Ports: map[int]int{6379: port},
	}
}

func (c Config) process(port int) (spec testservice.ProcessSpec, err error) {
	bin, err := binary()
	if err != nil {
		return spec, err
	}
	uid, gid, err := testservice.Owner("redis", "nobody")
	return testservice.ProcessSpec{
		Name: "redis", UID: uid, GID: gid,
		Command: func(dir string) *exec.Cmd {
			args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no"}
			return exec.Command(bin, append(args, c.arguments()...)...)
		},
	}, err
}

// binary is the server's program.
func binary() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("no redis-server on the PATH")
	}
	return path, nil
}
