package redistest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"

	"etl/internal/testservice"
)

// launch starts the server's process or container, ready or not.
func launch(ctx context.Context, via testservice.Via, cfg Config, port int) (testservice.Service, error) {
	if via == testservice.ViaContainer {
		return launchContainer(ctx, cfg, port)
	}
	return launchProcess(ctx, cfg, port)
}

// launchContainer keeps to what the official image understands.
func launchContainer(ctx context.Context, cfg Config, port int) (testservice.Service, error) {
	c, err := testservice.StartContainer(ctx, testservice.ContainerSpec{
		Image: cmp.Or(os.Getenv("ETL_TEST_REDIS_IMAGE"), "etl-test/redis:local"),
		Cmd:   append([]string{"redis-server", "--protected-mode", "no"}, cfg.arguments()...),
		Ports: map[int]int{6379: port},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func launchProcess(ctx context.Context, cfg Config, port int) (testservice.Service, error) {
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	uid, gid, err := owner()
	if err != nil {
		return nil, err
	}
	p, err := testservice.StartProcess(ctx, testservice.ProcessSpec{
		Name: "redis", UID: uid, GID: gid,
		Command: func(dir string) *exec.Cmd {
			args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no"}
			return exec.Command(bin, append(args, cfg.arguments()...)...)
		},
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// owner is the user that the server runs as: us, or "redis" or "nobody" when we are root.
func owner() (uid, gid int, err error) {
	if os.Getuid() != 0 {
		return os.Getuid(), os.Getgid(), nil
	}
	u, err := user.Lookup("redis")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return 0, 0, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2)
}

// binary is the server's program.
func binary() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("no redis-server on the PATH")
	}
	return path, nil
}
