package testservice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// ContainerSpec describes a server that runs in a container.
type ContainerSpec struct {
	Image      string
	Entrypoint []string // the image's own when empty
	Cmd        []string
	Env        map[string]string
	Files      map[string]string // path in the container -> content, there before the start
	Ports      map[int]int       // port in the container -> port of 127.0.0.1; fixed, because it must outlive a restart
}

// Container is a [Service] on the Docker engine.
type Container struct {
	tc    *testcontainers.DockerContainer
	cli   *testcontainers.DockerClient
	watch *watch
}

// StartContainer starts a container; the caller awaits it.
func StartContainer(ctx context.Context, spec ContainerSpec) (*Container, error) {
	if err := engineErr(ctx); err != nil {
		return nil, err
	}
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	tc, err := testcontainers.Run(ctx, spec.Image, spec.customize()...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s (scripts/build-test-images.sh builds ours, others are pulled): %w", spec.Image, err), testcontainers.TerminateContainer(tc), cli.Close())
	}
	c := &Container{tc: tc, cli: cli}
	if c.watch, err = startWatch(tc.GetContainerID()); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (spec ContainerSpec) customize() []testcontainers.ContainerCustomizer {
	bindings := network.PortMap{}
	var exposed []string
	for inside, outside := range spec.Ports {
		port := strconv.Itoa(inside) + "/tcp"
		exposed = append(exposed, port)
		bindings[network.MustParsePort(port)] = []network.PortBinding{
			{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(outside)},
		}
	}
	opts := []testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(exposed...),
		testcontainers.WithEnv(spec.Env),
		testcontainers.WithCmd(spec.Cmd...),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) { hc.PortBindings = bindings }),
	}
	if len(spec.Entrypoint) > 0 {
		opts = append(opts, testcontainers.WithEntrypoint(spec.Entrypoint...))
	}
	for path, content := range spec.Files {
		opts = append(opts, testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(content), ContainerFilePath: path, FileMode: 0o755,
		}))
	}
	return opts
}

// Kill implements [Service].
func (c *Container) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	id := c.tc.GetContainerID()
	if _, err := c.cli.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		return fmt.Errorf("kill container: %w", err)
	}
	down := c.cli.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-down.Result:
		return nil
	case err := <-down.Error:
		return fmt.Errorf("wait for a killed container: %w", err)
	}
}

// Restart implements [Service].
func (c *Container) Restart(ctx context.Context) error {
	_, err := c.cli.ContainerStart(ctx, c.tc.GetContainerID(), client.ContainerStartOptions{})
	return err
}

// Pause implements [Service].
func (c *Container) Pause(ctx context.Context) error {
	_, err := c.cli.ContainerPause(ctx, c.tc.GetContainerID(), client.ContainerPauseOptions{})
	return err
}

// Unpause implements [Service].
func (c *Container) Unpause(ctx context.Context) error {
	_, err := c.cli.ContainerUnpause(ctx, c.tc.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}

// Alive implements [Service].
func (c *Container) Alive(ctx context.Context) bool {
	state, err := c.tc.State(ctx)
	return err == nil && state.Running
}

// Log implements [Service].
func (c *Container) Log() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := c.tc.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	return tail(r)
}

// Stop implements [Service]. A frozen container takes no signal, so it is thawed first.
func (c *Container) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if state, err := c.tc.State(ctx); err == nil && state.Paused {
		_ = c.Unpause(ctx) // the removal below is by force
	}
	err := testcontainers.TerminateContainer(c.tc, testcontainers.StopTimeout(0))
	if err == nil && c.watch != nil {
		err = c.watch.release()
	}
	return errors.Join(err, c.cli.Close())
}
