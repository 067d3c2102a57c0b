package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"etl/internal/kafkatest"
	"etl/internal/testservice"
)

// Broker is what a job reads and writes: the in-process broker in a process of its
// own, or a real one.
type Broker struct {
	addr     string
	password string // of user, "" where there is no authentication
	fake     *fakeProcess
	real     *kafkatest.Server
}

// fakeProcess is a child that runs FakeBroker.
type fakeProcess struct {
	port int
	dir  string // of its data
	env  []string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// StartFake starts the in-process broker, with a folder that [Broker.Stop] removes.
func StartFake(password string) (*Broker, error) {
	port, err := testservice.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "etl-torture-kfake-")
	if err != nil {
		return nil, err
	}
	f := &fakeProcess{port: port, dir: dir, env: []string{passwordEnv + "=" + password}}
	if err := f.start(); err != nil {
		return nil, err
	}
	return &Broker{addr: testservice.Loopback(port), password: password, fake: f}, nil
}

func (f *fakeProcess) start() error {
	f.cmd = exec.Command(os.Args[0])
	f.cmd.Env = append(os.Environ(), append(f.env, fmt.Sprintf("%s=%d", fakeEnv, f.port), "ETL_TORTURE_KFAKE_DIR="+f.dir)...)
	f.cmd.Stderr = os.Stderr
	in, err := f.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := f.cmd.Start(); err != nil {
		return err
	}
	f.in, f.out = in, bufio.NewReader(out)
	return f.expect("up")
}

func (f *fakeProcess) expect(word string) error {
	line, err := f.out.ReadString('\n')
	if strings.TrimSpace(line) != word {
		return fmt.Errorf("the in-process broker said %q, not %q: %w", line, word, err)
	}
	return nil
}

// Tell has the in-process broker obey a command.
func (b *Broker) Tell(command string) error {
	if _, err := io.WriteString(b.fake.in, command+"\n"); err != nil {
		return err
	}
	return b.fake.expect("ok")
}

// end closes the child's input, upon which it ends by itself.
func (f *fakeProcess) end() error {
	return errors.Join(f.in.Close(), f.cmd.Wait())
}

// Bounce restarts the broker in order; open transactions stay open.
func (b *Broker) Bounce() error {
	if b.fake == nil {
		return errors.New("only an in-process broker can be restarted in order")
	}
	if err := b.fake.end(); err != nil {
		return err
	}
	return b.fake.start()
}

// OnReal wraps a broker of internal/kafkatest, which whoever started it stops.
func OnReal(s *kafkatest.Server) *Broker { return &Broker{addr: s.Addr(), real: s} }

// Stop ends an in-process broker.
func (b *Broker) Stop() error {
	if b.fake == nil {
		return nil
	}
	return errors.Join(b.fake.end(), os.RemoveAll(b.fake.dir))
}

// Real says whether it is Kafka.
func (b *Broker) Real() bool { return b.real != nil }

// Client is a client of the harness's own. The caller closes it.
func (b *Broker) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{kgo.SeedBrokers(strings.Split(b.addr, ",")...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.ClientID("torture")}
	if b.password != "" {
		all = append(all, kgo.SASL(plain.Auth{User: user, Pass: b.password}.AsMechanism()))
	}
	return kgo.NewClient(append(all, opts...)...)
}

// admin calls f with an admin client.
func (b *Broker) admin(f func(*kadm.Client) error) error {
	cl, err := b.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return f(kadm.NewClient(cl))
}

// CreateTopics makes topics and returns when every partition has a leader.
func (b *Broker) CreateTopics(ctx context.Context, partitions map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*ownerPatience)
	defer cancel()
	return b.admin(func(adm *kadm.Client) error {
		for topic, n := range partitions {
			if err := createTopic(ctx, adm, topic, n); err != nil {
				return fmt.Errorf("create topic %s: %w", topic, err)
			}
			for {
				ends, err := adm.ListEndOffsets(ctx, topic)
				if err == nil && ends.Error() == nil && len(ends[topic]) == n {
					break
				}
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return fmt.Errorf("topic %s has no leaders: %w", topic, err)
				}
			}
		}
		return nil
	})
}

// createTopic tries until the topic is there. A broker on a busy machine may answer too
// late and have made it all the same: then the client's next try, or ours, hears that it
// exists. Nobody else makes topics of these names.
func createTopic(ctx context.Context, adm *kadm.Client, topic string, partitions int) error {
	for {
		_, err := adm.CreateTopic(ctx, int32(partitions), 1, nil, topic)
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
