package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"etl/internal/testservice"
)

// startLimit is generous: the machine may be busy with other tests.
const startLimit = 120 * time.Second

// Server is a running broker. Its methods are safe from any goroutine, one at a time.
type Server struct {
	via      testservice.Via
	service  testservice.Service
	addr     string
	proxy    *testservice.Proxy
	security *Security
}

// Run starts a broker and returns when it answers clients. The caller stops it.
func Run(ctx context.Context, cfg Config) (*Server, error) {
	via, err := choose(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if via == testservice.ViaForeign {
		return foreign(ctx)
	}
	for try := 0; ; try++ {
		s, err := start(ctx, via, cfg)
		if err == nil || try == 2 || !portTaken(err) {
			return s, err
		}
	}
}

func choose(ctx context.Context, cfg Config) (testservice.Via, error) {
	via, err := testservice.Choose(ctx, cfg.Via, testservice.Choices{
		Foreign: os.Getenv("ETL_TEST_KAFKA"),
		Process: func() error { _, err := installed(); return err },
	})
	if err == nil && via == testservice.ViaForeign && !cfg.usual() {
		return "", errors.New("this test needs a broker with settings of its own, not the one of ETL_TEST_KAFKA")
	}
	return via, err
}

func foreign(ctx context.Context) (*Server, error) {
	s := &Server{via: testservice.ViaForeign, service: testservice.Foreign{}, addr: os.Getenv("ETL_TEST_KAFKA")}
	return s, s.AwaitReady(ctx)
}

// portTaken: between the choice of a free port and its use, another program can be quicker.
func portTaken(err error) bool {
	for _, text := range []string{"Address already in use", "port is already allocated", "address already in use"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// start makes one try on freshly chosen ports.
func start(ctx context.Context, via testservice.Via, cfg Config) (*Server, error) {
	ports, err := testservice.FreePorts(7)
	if err != nil {
		return nil, err
	}
	s := &Server{via: via, addr: testservice.Loopback(ports[0])}
	listeners := []listener{{"PLAINTEXT", "PLAINTEXT", ports[0], s.addr}}
	if cfg.Proxy {
		front := testservice.Loopback(ports[1])
		if s.proxy, err = testservice.StartProxy(front, testservice.Loopback(ports[2])); err != nil {
			return nil, err
		}
		listeners = append(listeners, listener{"PROXIED", "PLAINTEXT", ports[2], front})
	}
	if cfg.Secure {
		if s.security, err = newSecurity(ports[3:6]); err != nil {
			return nil, err
		}
		listeners = append(listeners, s.security.listeners()...)
	}
	if s.service, err = launch(ctx, via, cfg, listeners, ports[6], s.security); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := s.finish(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// finish does what needs a running broker.
func (s *Server) finish(ctx context.Context) error {
	if err := s.AwaitReady(ctx); err != nil {
		return err
	}
	if s.security != nil {
		return s.security.createUser(ctx, s.addr)
	}
	return nil
}

// Addr is the broker's plain listener, as host:port (or a list, if somebody else's).
func (s *Server) Addr() string { return s.addr }

// Seeds is Addr as kgo.SeedBrokers wants it.
func (s *Server) Seeds() []string { return strings.Split(s.addr, ",") }

// Via says how the broker runs.
func (s *Server) Via() testservice.Via { return s.via }

// Proxy is the bad network in front of the broker; nil without Config.Proxy.
func (s *Server) Proxy() *testservice.Proxy { return s.proxy }

// Security is what clients of the secured listeners need; nil without Config.Secure.
func (s *Server) Security() *Security { return s.security }

// Log is the newest part of the broker's log.
func (s *Server) Log() string { return s.service.Log() }

// Pid is the broker's process, or 0 when it is not a child of this program.
func (s *Server) Pid() int {
	if p, ok := s.service.(*testservice.Process); ok {
		return p.Pid()
	}
	return 0
}

// Kill sends SIGKILL and returns when the broker is down. The signal of a plain
// process arrives within microseconds of the call, a container's takes
// milliseconds: aim kills at a [testservice.ViaProcess].
func (s *Server) Kill(ctx context.Context) error { return s.service.Kill(ctx) }

// Restart starts a killed broker on its data and ports and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.service.Restart(ctx); err != nil {
		return fmt.Errorf("restart the broker: %w", err)
	}
	return s.AwaitReady(ctx)
}

// Pause freezes the broker: connections stay open and nothing answers.
func (s *Server) Pause(ctx context.Context) error { return s.service.Pause(ctx) }

// Unpause thaws it.
func (s *Server) Unpause(ctx context.Context) error { return s.service.Unpause(ctx) }

// AwaitReady returns when the broker answers a client.
func (s *Server) AwaitReady(ctx context.Context) error {
	return testservice.Await(ctx, s.service, startLimit, s.Ready)
}

// Stop ends the broker and removes its data.
func (s *Server) Stop() error {
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.service == nil {
		return nil
	}
	return s.service.Stop()
}

// Image is the image that containers are made of.
func Image() string {
	return cmp.Or(os.Getenv("ETL_TEST_KAFKA_IMAGE"), "etl-test/kafka:"+version())
}

func version() string { return cmp.Or(os.Getenv("ETL_KAFKA_VERSION"), "4.3.1") }
