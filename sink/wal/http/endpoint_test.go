package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etl/sink"
	"etl/sink/sinktest"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a server that keeps the rows it is sent, in order.
type endpoint struct {
	t    testing.TB
	host string // in its URL
	srv  *httptest.Server

	mu   sync.Mutex
	addr string // where it listens now, "" for nowhere
	// answer decides what becomes of a request; 0 takes its rows. It may be nil.
	answer func(n int, r *http.Request, rows []row) (status int, header map[string]string)
	// remembers: a key that was taken is taken no second time.
	remembers bool
	keys      map[string]bool
	requests  []request
	rows      []row
}

type row struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

type request struct {
	key, contentType, body string
	header                 http.Header
	status                 int
}

func newEndpoint(t testing.TB) *endpoint {
	e := &endpoint{t: t, keys: map[string]bool{}}
	if err := e.restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.host = e.addr
	t.Cleanup(func() { _ = e.kill(context.Background()) })
	return e
}

func (e *endpoint) url() string { return "http://" + e.host + "/in?token=canary" }

// dial leads to the endpoint wherever it listens: a port that it gave up may be somebody
// else's by now.
func (e *endpoint) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	e.mu.Lock()
	addr := e.addr
	e.mu.Unlock()
	if addr == "" {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (e *endpoint) listens(addr string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addr = addr
}

// kill ends the server; what it has kept stays.
func (e *endpoint) kill(context.Context) error {
	if e.srv != nil {
		e.listens("")
		e.srv.CloseClientConnections()
		e.srv.Close()
		e.srv = nil
	}
	return nil
}

func (e *endpoint) restart(context.Context) error {
	e.srv = httptest.NewServer(e)
	e.listens(e.srv.Listener.Addr().String())
	return nil
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	rows, err := parse(r.Header.Get("Content-Type"), b)
	e.mu.Lock()
	defer e.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	q := request{key: key, contentType: r.Header.Get("Content-Type"), body: string(b), header: r.Header}
	var header map[string]string
	if e.answer != nil {
		q.status, header = e.answer(len(e.requests), r, rows)
	}
	if err != nil {
		q.status = http.StatusBadRequest
	}
	e.requests = append(e.requests, q)
	if q.status == 0 && !(e.remembers && e.keys[key]) {
		e.rows, e.keys[key] = append(e.rows, rows...), true
	}
	for k, v := range header {
		w.Header().Set(k, v)
	}
	if q.status != 0 {
		w.WriteHeader(q.status)
		fmt.Fprintf(w, "status %d", q.status)
	}
}

func parse(contentType string, b []byte) (rows []row, err error) {
	switch contentType {
	case "application/json":
		return rows, json.Unmarshal(b, &rows)
	case "application/x-ndjson":
		for line := range strings.Lines(string(b)) {
			var r row
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		return rows, nil
	}
	return nil, errors.New("another type")
}

func (e *endpoint) seen() []request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]request(nil), e.requests...)
}

func (e *endpoint) kept() (out string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rows {
		out += fmt.Sprint(r.N, " ")
	}
	return strings.TrimSpace(out)
}

// encode writes {"key":...,"n":...}.
func encode() Encoder {
	return func(dst []byte, r *stream.Record) ([]byte, error) {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return dst, errors.New("not a number")
		}
		b, err := json.Marshal(row{string(r.Key), n})
		return append(dst, b...), err
	}
}

// TestConformance: an endpoint that forgets keys sees each row at least once; one that
// remembers them, exactly once, in order, and nothing of a checkpoint that is not
// published.
func TestConformance(t *testing.T) {
	for _, remembers := range []bool{false, true} {
		t.Run(fmt.Sprintf("remembers %v", remembers), func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Places: 8, Runs: 15, Steps: 40, Patience: time.Minute, New: func(t testing.TB) *sinktest.Harness {
				e := newEndpoint(t)
				e.remembers = remembers
				dir := t.TempDir()
				return &sinktest.Harness{
					World: stream.World{Dial: e.dial},
					Connect: func(p sinktest.Process) sink.Connector {
						return remembering{New(Config{URL: e.url(), MaxRows: 3, Encode: encode, RetryInitial: time.Millisecond, RetryMax: 5 * time.Millisecond, Parallelism: p.Parallelism, SpillDir: dir}), remembers}
					},
					Read: func(context.Context) (out []sinktest.Row, err error) {
						e.mu.Lock()
						defer e.mu.Unlock()
						for _, r := range e.rows {
							out = append(out, sinktest.Row{Key: r.Key, N: r.N})
						}
						return out, nil
					},
					BadAtWrite: func(b *stream.Batch, r *stream.Record) { r.Value = b.Copy([]byte("x" + string(r.Value))) },
					Kill:       e.kill, Restart: e.restart,
				}
			}})
		})
	}
}

// remembering is what the sink is in front of an endpoint that remembers keys.
type remembering struct {
	sink.Connector
	is bool
}

func (r remembering) Features() sink.Features {
	f := r.Connector.Features()
	f.Transactional = r.is
	return f
}
