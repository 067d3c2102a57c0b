package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"etl/internal/testservice"
)

const password = "etl-test"

// launch starts the server's process or container, ready or not, and says its address.
func (c Config) launch(ctx context.Context, via testservice.Via) (testservice.Service, string, error) {
	port, err := testservice.FreePort()
	if err != nil {
		return nil, "", err
	}
	service, err := testservice.Launch(ctx, via,
		func() testservice.ContainerSpec { return c.container(port) },
		func() (testservice.ProcessSpec, error) { return c.process(port) })
	return service, fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", password, testservice.Loopback(port)), err
}

// container keeps to what the official image understands.
func (c Config) container(port int) testservice.ContainerSpec {
	return testservice.ContainerSpec{
		Image: cmp.Or(os.Getenv("ETL_TEST_POSTGRES_IMAGE"), defaultImage()),
		Cmd:   append([]string{"postgres"}, c.arguments()...),
		Env:   map[string]string{"POSTGRES_PASSWORD": password},
		Ports: map[int]int{5432: port},
	}
}

// defaultImage is the one that scripts/build-test-images.sh makes of the server installed here.
func defaultImage() string {
	bin, err := binaries()
	if err != nil {
		return "etl-test/postgres:15"
	}
	return "etl-test/postgres:" + filepath.Base(filepath.Dir(bin))
}

func (c Config) process(port int) (spec testservice.ProcessSpec, err error) {
	bin, err := binaries()
	if err != nil {
		return spec, err
	}
	uid, gid, err := owner()
	return testservice.ProcessSpec{
		Name: "postgres", UID: uid, GID: gid, Forks: true,
		Prepare: func(ctx context.Context, dir string) error { return initdb(ctx, bin, dir, uid, gid) },
		Command: func(dir string) *exec.Cmd {
			args := []string{
				"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port),
				"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + dir,
			}
			return exec.Command(filepath.Join(bin, "postgres"), append(args, c.arguments()...)...)
		},
	}, err
}

// initdb makes the data folder. Its own syncs are left out: the folder is new,
// and a machine that dies takes the test along.
func initdb(ctx context.Context, bin, dir string, uid, gid int) error {
	pw := filepath.Join(dir, "password")
	if err := os.WriteFile(pw, []byte(password), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres",
		"--pwfile="+pw, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	cmd.Dir = dir
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Remove(pw)
}

// owner is the user that the server runs as: us, or "postgres" when we are root.
func owner() (uid, gid int, err error) { return testservice.Owner("postgres") }

// binaries is the folder of the newest server that is installed.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("no PostgreSQL server below /usr/lib/postgresql or on the PATH")
	}
	return filepath.Dir(path), nil
}

// major is the version in /usr/lib/postgresql/15/bin/postgres.
func major(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}
