package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"etl/internal/fault"
	"etl/state"
	"etl/stream"
)

// UploaderOptions is what an uploader works with. The zero value of a number
// means its default.
type UploaderOptions struct {
	Storage Storage
	World   stream.World
	Lineage stream.Lineage
	Attempt stream.Attempt
	// MaxBytes is the size at which an object is sent off; default 8 MiB. A frame
	// is never cut, so an object can be larger.
	MaxBytes int
	// Delay is how long an object waits for frames of other subtasks; default 5 ms.
	Delay time.Duration
	// InlineBelow is the size in bytes below which a frame that only one
	// checkpoint lists is put into the metadata; default 32 KiB, negative for never.
	InlineBelow int
	// Parallel is the number of objects written at once; default 4.
	Parallel int
}

// Uploader makes frames durable. The frames of many subtasks share objects, since
// what a write costs is the sync, or the request, and not the bytes.
//
// Frames that many checkpoints will list (segments), rows that checkpoints list until
// they are delivered, and frames that only one lists travel in separate objects, so that
// short-lived bytes are not kept by long-lived neighbours. Only short-lived ones become inline: a segment would be
// written again with every checkpoint that lists it.
//
// A failed write fails the tickets of its object and nothing else: the
// checkpoint is declined and the frames are still the caller's (I7, I8). After an
// unconfirmed sync everything fails (I16).
type Uploader struct {
	o      UploaderOptions
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	busy   sync.WaitGroup

	mu     sync.Mutex
	packs  map[lifetime]*pack
	number int
	dead   error
}

var _ state.Uploader = (*Uploader)(nil)

// NewUploader returns the uploader of an attempt. There is one per attempt: it
// counts its objects' names.
func NewUploader(o UploaderOptions) *Uploader {
	o.MaxBytes = cmp.Or(o.MaxBytes, 8<<20)
	o.InlineBelow = cmp.Or(o.InlineBelow, 32<<10)
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.Delay = orDuration(o.Delay, 5*time.Millisecond)
	u := &Uploader{o: o, slots: make(chan struct{}, o.Parallel), packs: map[lifetime]*pack{}}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

// pack is an object on its way.
type pack struct {
	name    string
	life    lifetime
	tickets []*ticket
	size    int64
	full    context.CancelFunc // ends the wait for more
}

type ticket struct {
	frame []byte
	h     state.Handle
	err   error
	done  chan struct{}
}

// Wait returns when the frame is durable.
func (t *ticket) Wait(ctx context.Context) (state.Handle, error) {
	select {
	case <-t.done:
		return t.h, t.err
	case <-ctx.Done():
		return state.Handle{}, context.Cause(ctx)
	}
}

func (t *ticket) finish(h state.Handle, err error) {
	t.h, t.err, t.frame = h, err, nil
	close(t.done)
}

// scopeOf says who may list the bytes of a role.
func scopeOf(role state.Role) state.Scope {
	switch role {
	case state.Operator, state.Writer, state.InFlight:
		return state.Private
	}
	return state.Shared
}

// Append takes a frame, which must not change until its ticket is done.
func (u *Uploader) Append(role state.Role, frame []byte) state.Ticket {
	t := &ticket{frame: frame, done: make(chan struct{})}
	t.h = state.Handle{Role: role, Scope: scopeOf(role), Size: int64(len(frame)), CRC: crc32.Checksum(frame, castagnoli)}
	if t.h.Scope == state.Private && len(frame) < u.o.InlineBelow {
		t.h.Scope, t.h.Bytes = state.Inline, bytes.Clone(frame)
		t.finish(t.h, nil)
		return t
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dead != nil {
		t.finish(state.Handle{}, u.dead)
		return t
	}
	p := u.open(lifetime{t.h.Scope, role == state.Rows})
	t.h.Object, t.h.Offset = p.name, p.size
	p.tickets, p.size = append(p.tickets, t), p.size+t.h.Size
	if p.size >= int64(u.o.MaxBytes) {
		u.seal(p)
	}
	return t
}

// lifetime tells frames apart that go at different times.
type lifetime struct {
	scope state.Scope
	rows  bool
}

// open returns the object that takes frames of a lifetime.
func (u *Uploader) open(life lifetime) *pack {
	if p := u.packs[life]; p != nil {
		return p
	}
	u.number++
	p := &pack{life: life, name: ObjectName(u.o.Lineage, u.o.Attempt, fmt.Sprintf("%06d", u.number))}
	ctx, full := context.WithCancel(u.ctx)
	p.full = full
	u.packs[life] = p
	u.busy.Go(func() {
		_ = u.o.World.Clock.Sleep(ctx, u.o.Delay)
		u.mu.Lock()
		u.seal(p)
		u.mu.Unlock()
		u.send(p)
	})
	return p
}

// seal closes an object to further frames.
func (u *Uploader) seal(p *pack) {
	p.full()
	if u.packs[p.life] == p {
		delete(u.packs, p.life)
	}
}

// send writes an object and answers its tickets.
func (u *Uploader) send(p *pack) {
	err := u.write(p)
	if errors.Is(err, ErrNotDurable) {
		u.mu.Lock()
		u.dead = err
		u.mu.Unlock()
	}
	for _, t := range p.tickets {
		h := t.h
		if err != nil {
			h = state.Handle{}
		}
		t.finish(h, err)
	}
}

func (u *Uploader) write(p *pack) error {
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-u.ctx.Done():
	}
	if err := fault.Err("uploader.create"); err != nil {
		return err
	}
	readers := make([]io.Reader, len(p.tickets))
	for i, t := range p.tickets {
		readers[i] = bytes.NewReader(t.frame)
	}
	size, _, err := u.o.Storage.Create(u.ctx, p.name, io.MultiReader(readers...))
	if err == nil && size != p.size {
		err = fmt.Errorf("%d bytes were stored instead of %d", size, p.size)
	}
	if err != nil {
		return storageError("create "+p.name, u.o.Storage, err)
	}
	return nil
}

// Close gives up what is not durable yet and returns when nothing runs any more.
func (u *Uploader) Close() {
	u.mu.Lock()
	if u.dead == nil {
		u.dead = stream.Errorf(stream.Restart, "uploader.closed", "upload", "", "the attempt is over")
	}
	u.mu.Unlock()
	u.cancel()
	u.busy.Wait()
}
