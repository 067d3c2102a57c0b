package sinktest

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"

	"etl/checkpoint"
	"etl/stream"
)

var (
	// errDead is what the outside answers to a process that is dead.
	errDead = errors.New("sinktest: the process is dead")
	// errCut is a connection that broke, as every connection does some day.
	errCut error = &net.OpError{Op: "sinktest", Err: syscall.ECONNRESET}
	// errChanged is a look that changed what it looked at.
	errChanged = errors.New("sinktest: looking at it changed it")
)

// Process is one process of the job under test, as its sink sees it.
type Process struct {
	// World is the process's clock, network, file system and entropy. Network and
	// file system end with the process, and messages get lost on the network.
	World stream.World
	// Parallelism is the number of subtasks, Policy that of the job.
	Parallelism int
	Policy      checkpoint.Policy

	n *node
}

// Do is one request to an outside that is neither behind World.Dial nor behind
// World.FS. Its error is op's, or one that says that the connection broke: then op may
// have taken effect, or not.
func (p Process) Do(op func() error) error {
	if err := p.n.pass(request); err != nil {
		return err
	}
	err := op()
	if lost := p.n.pass(reply); lost != nil {
		return lost
	}
	return err
}

// event is something that passes between a process and its outside.
type event uint8

const (
	request event = iota // bytes on their way out
	reply                // bytes that came in
	step                 // a named point, an operation on a file
)

// mishap is what happens to a process at an event.
type mishap uint8

const (
	none        mishap = iota
	kill               // kill -9: nothing leaves the process any more
	loseRequest        // the request does not arrive, the connection breaks
	loseReply          // the request took effect, the connection breaks
)

// node is the machine under one process. It counts events, and makes something
// happen at one of them.
type node struct {
	died context.CancelFunc

	mu     sync.Mutex
	dead   bool
	passed int // events since arm
	after  int // events that pass before the mishap
	next   mishap
	hurt   bool // a message was lost
	conns  map[*conn]struct{}

	calls sync.WaitGroup // of the system, under way
}

func newNode(died context.CancelFunc) *node {
	return &node{died: died, conns: map[*conn]struct{}{}}
}

// arm plans a mishap for the first event that fits, once after events have passed.
func (n *node) arm(m mishap, after int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next, n.after, n.passed = m, after, 0
}

// disarm takes the plan back; it returns how many events passed and whether the
// mishap has happened.
func (n *node) disarm() (passed int, happened bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	happened = n.next == none
	n.next = none
	return n.passed, happened
}

func (n *node) pass(e event) error {
	n.mu.Lock()
	if n.dead {
		n.mu.Unlock()
		return errDead
	}
	n.passed++
	m := n.next
	if n.passed <= n.after || m == loseRequest && e != request || m == loseReply && e != reply {
		m = none
	}
	if m != none {
		n.next, n.hurt = none, n.hurt || m != kill
	}
	n.mu.Unlock()
	switch m {
	case none:
		return nil
	case kill:
		n.kill()
		return errDead
	}
	return errCut
}

// call makes a call of the system. A process that is killed in it is gone only when the
// system has done it.
func (n *node) call(op func() error) error {
	n.mu.Lock()
	if n.dead {
		n.mu.Unlock()
		return errDead
	}
	n.calls.Add(1)
	n.mu.Unlock()
	defer n.calls.Done()
	return op()
}

// kill ends the process and returns when it is gone: whatever its code still does, nobody
// will ever notice.
func (n *node) kill() {
	n.mu.Lock()
	n.dead = true
	conns := n.conns
	n.conns = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
	n.died()
	n.calls.Wait()
}

// isHurt reports whether a message of the process was lost.
func (n *node) isHurt() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hurt
}

func (n *node) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// wrap returns w as the process on the node gets it.
func (n *node) wrap(w stream.World) stream.World {
	if dial := w.Dial; dial != nil {
		w.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return n.dial(ctx, dial, network, addr)
		}
	}
	if w.FS != nil {
		w.FS = disk{w.FS, n}
	}
	return w
}

func (n *node) dial(ctx context.Context, dial stream.Dialer, network, addr string) (net.Conn, error) {
	if err := n.pass(request); err != nil {
		return nil, err
	}
	inner, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{inner, n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		_ = inner.Close()
		return nil, errDead
	}
	n.conns[c] = struct{}{}
	return c, nil
}

// conn is a connection that a mishap may break.
type conn struct {
	net.Conn
	n *node
}

// Write sends p, unless it is lost.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.n.pass(request); err != nil {
		_ = c.Conn.Close()
		return 0, err
	}
	return c.Conn.Write(p)
}

// Read receives, unless what came is lost.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		if lost := c.n.pass(reply); lost != nil {
			_ = c.Conn.Close()
			return 0, lost
		}
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}
