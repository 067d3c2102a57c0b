package kafkatest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"etl/internal/testservice"
)

//go:embed kafka-entrypoint.sh
var entrypoint string

// launch starts the broker's process or container, ready or not.
func launch(ctx context.Context, via testservice.Via, cfg Config, ls []listener, controller int, sec *Security) (testservice.Service, error) {
	return testservice.Launch(ctx, via,
		func() testservice.ContainerSpec {
			return cfg.container(ls, cfg.settings("0.0.0.0", ls, controller, sec))
		},
		func() (testservice.ProcessSpec, error) {
			return cfg.process(cfg.settings("127.0.0.1", ls, controller, sec))
		})
}

// container brings the entry point along, so that any image with Java and the jars will do.
func (c Config) container(ls []listener, settings string) testservice.ContainerSpec {
	env := c.environment()
	env["KAFKA_EXTRA"] = "/etl/extra.properties"
	ports := map[int]int{}
	for _, l := range ls {
		ports[l.port] = l.port
	}
	return testservice.ContainerSpec{
		Image:      Image(),
		Entrypoint: []string{"sh", "/etl/kafka-entrypoint.sh"},
		Env:        env,
		Files:      map[string]string{"/etl/kafka-entrypoint.sh": entrypoint, "/etl/extra.properties": settings},
		Ports:      ports,
	}
}

func (c Config) process(settings string) (testservice.ProcessSpec, error) {
	home, err := installed()
	return testservice.ProcessSpec{
		Name: "kafka",
		UID:  os.Getuid(),
		GID:  os.Getgid(),
		Prepare: func(_ context.Context, dir string) error {
			return errors.Join(
				os.WriteFile(filepath.Join(dir, "kafka-entrypoint.sh"), []byte(entrypoint), 0o755),
				os.WriteFile(filepath.Join(dir, "extra.properties"), []byte(settings), 0o600))
		},
		Command: func(dir string) *exec.Cmd {
			cmd := exec.Command("sh", filepath.Join(dir, "kafka-entrypoint.sh"))
			cmd.Env = append(os.Environ(), "KAFKA_DIR="+dir,
				"KAFKA_LIBS="+filepath.Join(home, "libs"), "KAFKA_BAKED="+filepath.Join(home, "baked"))
			for k, v := range c.environment() {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			return cmd
		},
	}, err
}

// installed finds what scripts/setup-test-services.sh put in place.
func installed() (string, error) {
	cache, err := testservice.Cache()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "kafka-"+version())
	if _, err := os.Stat(filepath.Join(home, "libs", ".complete")); err != nil {
		return "", fmt.Errorf("no Kafka %s jars in %s", version(), home)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", errors.New("no java on the PATH")
	}
	return home, nil
}
