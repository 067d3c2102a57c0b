package simtest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"

	"etl/internal/simtest/crashfs"
	"etl/stream"
)

// process is one process of the job: a World, and a way to lose it.
type process struct {
	s    *sim
	name string
	wire *wire
	disk *disk
	// base is the disk of the local state base, of the machine the process runs on.
	machine int
	base    *baseDisk

	mu      sync.Mutex
	dead    chan struct{} // closed at death
	frozen  chan struct{} // not nil while stopped; closed when continued
	onReach func(where string)
	cancel  context.CancelCauseFunc
	rnd     *entropy
}

// newProcess starts an empty process on the disks as they are.
func (s *sim) newProcess() *process {
	s.processes++
	p := &process{s: s, name: fmt.Sprint("p", s.processes), dead: make(chan struct{}), cancel: func(error) {}}
	p.rnd = &entropy{r: s.rand("entropy" + p.name)}
	p.wire = newWire(&s.net, p, s.plan.weather, s.rand("net"+p.name))
	p.disk = &disk{FS: s.disk, p: p}
	if s.plan.moves {
		p.machine = s.processes % len(s.machines)
		if s.r.IntN(8) == 0 {
			s.machines[p.machine] = newBaseDisk(s.plan.pebble) // a new one
		}
	}
	p.base = s.machines[p.machine]
	return p
}

// world is what the process's job lives in.
func (p *process) world() stream.World {
	log := slog.New(slog.DiscardHandler)
	if *talk {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("process", p.name)
	}
	return stream.World{Clock: stream.SystemClock{}, FS: p.disk, Dial: p.wire.dial, Entropy: p.rnd, Log: log}
}

// gate is passed by everything that leaves the process: it waits while the process
// is stopped, and fails when it is dead.
func (p *process) gate(ctx context.Context) error {
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		select {
		case <-p.dead:
			return errCut
		default:
		}
		if frozen == nil {
			return nil
		}
		select {
		case <-frozen:
		case <-p.dead:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reach is a step outside, "EndTxn sent", "put done" and so on: a place where a
// process can be stopped.
func (p *process) reach(ctx context.Context, where string) error {
	p.mu.Lock()
	f := p.onReach
	p.mu.Unlock()
	if f != nil {
		f(where)
	}
	return p.gate(ctx)
}

// freeze stops the process, as SIGSTOP does, at its next step outside.
func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// thaw lets it go on.
func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// kill ends the process: SIGKILL, or a loss of power that takes along what was not
// synced. Network and disks end first, so that nothing its goroutines still do has
// an effect. It reports whether the process was alive.
func (p *process) kill(power bool) bool {
	p.mu.Lock()
	if p.isDead() {
		p.mu.Unlock()
		return false
	}
	close(p.dead)
	p.mu.Unlock()
	p.wire.cut()
	p.disk.release()
	if power {
		p.s.disk = p.s.disk.Crash(p.s.rand("power" + p.name))
	}
	p.s.machines[p.machine] = p.base.crash(power, p.s.rand("base"+p.name))
	p.cancel(errKilled)
	return true
}

// disk is the file system as one process sees it.
type disk struct {
	*crashfs.FS
	p *process

	mu    sync.Mutex
	locks []func() error
}

// release gives up what the kernel gives up for a dead process.
func (d *disk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, unlock := range d.locks {
		_ = unlock()
	}
	d.locks = nil
}

// entropy is randomness that comes from the seed.
type entropy struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (e *entropy) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range b {
		b[i] = byte(e.r.Uint32())
	}
	return len(b), nil
}
