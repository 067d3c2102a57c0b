package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"etl/stream"
)

// hurried is a clock in which a second passes with every look.
type hurried struct {
	stream.SystemClock
	mu  sync.Mutex
	now time.Time
}

func (h *hurried) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(time.Second)
	return h.now
}

func (h *hurried) Ticker(time.Duration) stream.Ticker { return always{} }

// always is a ticker that has always just ticked.
type always struct{}

var ticked = func() chan time.Time { c := make(chan time.Time); close(c); return c }()

func (always) C() <-chan time.Time { return ticked }
func (always) Stop()               {}

// reader calls enough once it has read a text.
type reader struct {
	mu     sync.Mutex
	all    bytes.Buffer
	until  string
	enough func()
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Write(p)
	if strings.Contains(r.all.String(), r.until) {
		r.enough()
	}
	return len(p), nil
}

func (r *reader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// waits is a pipeline file whose broker is nowhere.
func waits(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "p.yaml")
	const text = `
name: waits
http: none
connections: { main: { type: kafka, seed_brokers: ["k:1"] } }
sources: { in: { type: kafka, connection: main, topics: [a], decode: text, on_error: dead_letter, dead_letter: dead } }
sinks: { out: { type: kafka, inputs: in, connection: main, topic: b }, dead: { type: kafka, connection: main, topic: c } }
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWaitingIsHeard: while a broker that says nothing is waited for, every command that
// asks brokers says so; that somebody then interrupts it is no problem of the file.
func TestWaitingIsHeard(t *testing.T) {
	file := waits(t)
	for _, args := range [][]string{{"lint", "--probe"}, {"verify"}, {"run"}, {"dlq", "ls"}, {"dlq", "show", file, "0@0"}, {"dlq", "replay"}, {"dlq", "replay", "--dry-run"},
		{"txn", "ls"}, {"txn", "explain", file, "x"}, {"txn", "commit"}, {"txn", "abort"}, {"txn", "heal"}} {
		ctx, cancel := context.WithCancel(t.Context())
		errs := &reader{until: "still waiting for broker k:1: it accepts connections and does not answer", enough: cancel}
		var out bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: errs, world: stream.SystemWorld(nil)}
		a.world.Clock = &hurried{now: time.Unix(0, 0)}
		a.world.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			t.Cleanup(func() { _ = theirs.Close() })
			return ours, nil
		}
		root := a.root()
		if !slices.Contains(args, file) {
			args = append(args, file)
		}
		root.SetArgs(append(args, "--data-dir", t.TempDir()))
		if err := root.ExecuteContext(ctx); err == nil || ctx.Err() == nil {
			t.Errorf("%v: %v; %s", args, err, errs)
		}
		if shows := out.String() + errs.String(); strings.Contains(shows, "context canceled") {
			t.Errorf("%v shows %s", args, shows)
		}
		cancel()
	}
}
