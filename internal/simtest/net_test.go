package simtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errCut is what a dead process gets from its network and its disks.
var errCut = errors.New("the process is dead")

// errReset is a connection that ends in the middle of something.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// weather is what a network does to what passes through it.
type weather struct {
	latency time.Duration // the most that one frame is late
	// slow is the most that Produce requests of an unlucky connection are late, on
	// top: two producers of one sink then differ, and rows can overtake.
	slow time.Duration
	// reset is the chance, per frame, that the connection ends instead.
	reset float64
	// lose is the chance that an answer is lost after the broker did what was asked.
	lose map[kmsg.Key]float64
}

// wire is the network of one process.
type wire struct {
	vn *kfake.VirtualNetwork
	p  *process
	w  weather

	mu    sync.Mutex
	r     *rand.Rand
	conns map[*conn]bool
}

func newWire(vn *kfake.VirtualNetwork, p *process, w weather, r *rand.Rand) *wire {
	return &wire{vn: vn, p: p, w: w, r: r, conns: map[*conn]bool{}}
}

// dial opens a connection to a broker.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := w.p.gate(ctx); err != nil {
		return nil, err
	}
	inner, err := w.vn.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &conn{Conn: inner, w: w}
	if w.w.slow > 0 && w.r.IntN(2) == 0 {
		c.slow = time.Duration(w.r.Int64N(int64(w.w.slow)))
	}
	w.conns[c] = true
	return c, nil
}

// cut ends all connections: the process is dead.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Conn.Close()
	}
}

// draw decides how late a frame is, and whether the connection ends instead.
func (w *wire) draw(key kmsg.Key, answer bool) (late time.Duration, reset bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.w.latency > 0 {
		late = time.Duration(w.r.Int64N(int64(w.w.latency)))
	}
	if w.p.s.healed.Load() {
		return late, false
	}
	chance := w.w.reset
	if answer {
		chance += w.w.lose[key]
	}
	return late, chance > 0 && w.r.Float64() < chance
}

// conn is one connection, which knows what passes through it. Kafka answers the
// requests of a connection in their order.
type conn struct {
	net.Conn
	w    *wire
	slow time.Duration

	mu    sync.Mutex
	asked []kmsg.Key // not answered
	rest  []byte     // of the answer that is being read
}

// Write sends one request: clients write each with one call.
func (c *conn) Write(b []byte) (int, error) {
	if len(b) < 8 || int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		return 0, fmt.Errorf("a write of %d bytes is not one request", len(b))
	}
	key := kmsg.Key(binary.BigEndian.Uint16(b[4:]))
	late, reset := c.w.draw(key, false)
	if key == kmsg.Produce {
		late += c.slow
	}
	pause(late)
	if err := c.w.p.reach(context.Background(), key.Name()+" sent"); err != nil {
		return 0, err
	}
	if reset {
		return 0, c.abort(key, "request")
	}
	c.mu.Lock()
	c.asked = append(c.asked, key)
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// Read returns bytes of answers; an answer is taken as a whole.
func (c *conn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if err := c.answer(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *conn) answer() error {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, size); err != nil {
		return err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size))
	copy(frame, size)
	if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
		return err
	}
	c.mu.Lock()
	key := c.asked[0]
	c.asked = c.asked[1:]
	c.mu.Unlock()
	late, reset := c.w.draw(key, true)
	pause(late)
	if err := c.w.p.reach(context.Background(), key.Name()+" answered"); err != nil {
		return err
	}
	if reset {
		return c.abort(key, "answer")
	}
	c.rest = frame
	return nil
}

func (c *conn) abort(key kmsg.Key, what string) error {
	c.w.p.s.cov.add("net/" + what + " lost/" + key.Name())
	_ = c.Conn.Close()
	return errReset
}

// Close ends the connection.
func (c *conn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}
