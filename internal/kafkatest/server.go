package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"etl/internal/testservice"
)

// Tier is the name under which a missing broker is reported.
const Tier = "real-kafka"

var kind = &testservice.Kind{
	Name: "the broker", Tier: Tier, Env: "ETL_TEST_KAFKA", Limit: 120 * time.Second,
	Installed: func() error { _, err := installed(); return err },
	Ready:     ready,
}

// Server is a running broker.
type Server struct {
	*testservice.Server
	proxy    *testservice.Proxy
	security *Security
}

// Run starts a broker and returns when it answers clients. The caller stops it.
func Run(ctx context.Context, cfg Config) (*Server, error) {
	for try := 0; ; try++ {
		s, err := start(ctx, cfg)
		if err == nil || try == 2 || !portTaken(err) {
			return s, err
		}
	}
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
func start(ctx context.Context, cfg Config) (s *Server, err error) {
	s = new(Server)
	s.Server, err = kind.Run(ctx, cfg.Via, !cfg.usual(), func(ctx context.Context, via testservice.Via) (testservice.Service, string, error) {
		return s.launch(ctx, via, cfg)
	})
	if err == nil && s.security != nil {
		err = s.security.createUser(ctx, s.Addr())
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// launch starts the broker and what stands in front of it, ready or not, and says its address.
func (s *Server) launch(ctx context.Context, via testservice.Via, cfg Config) (testservice.Service, string, error) {
	ports, err := testservice.FreePorts(7)
	if err != nil {
		return nil, "", err
	}
	addr := testservice.Loopback(ports[0])
	listeners := []listener{{"PLAINTEXT", "PLAINTEXT", ports[0], addr}}
	if cfg.Proxy {
		front := testservice.Loopback(ports[1])
		if s.proxy, err = testservice.StartProxy(front, testservice.Loopback(ports[2])); err != nil {
			return nil, "", err
		}
		listeners = append(listeners, listener{"PROXIED", "PLAINTEXT", ports[2], front})
	}
	if cfg.Secure {
		if s.security, err = newSecurity(ports[3:6]); err != nil {
			return nil, "", err
		}
		listeners = append(listeners, s.security.listeners()...)
	}
	service, err := launch(ctx, via, cfg, listeners, ports[6], s.security)
	return service, addr, err
}

// Addr is the broker's plain listener, as host:port (or a list, if somebody else's).
func (s *Server) Addr() string { return s.Address() }

// Seeds is Addr as kgo.SeedBrokers wants it.
func (s *Server) Seeds() []string { return seeds(s.Addr()) }

func seeds(addr string) []string { return strings.Split(addr, ",") }

// Proxy is the bad network in front of the broker; nil without Config.Proxy.
func (s *Server) Proxy() *testservice.Proxy { return s.proxy }

// Security is what clients of the secured listeners need; nil without Config.Secure.
func (s *Server) Security() *Security { return s.security }

// Pid is the broker's process, or 0 when it is not a child of this program.
func (s *Server) Pid() int {
	if p := s.Process(); p != nil {
		return p.Pid()
	}
	return 0
}

// Stop ends the broker and removes its data.
func (s *Server) Stop() error {
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.Server == nil {
		return nil // it never answered
	}
	return s.Server.Stop()
}

// Image is the image that containers are made of.
func Image() string {
	return cmp.Or(os.Getenv("ETL_TEST_KAFKA_IMAGE"), "etl-test/kafka:"+version())
}

func version() string { return cmp.Or(os.Getenv("ETL_KAFKA_VERSION"), "4.3.1") }
