package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// Short is a short transaction: the rows of one epoch and its marker, written and
// committed by one delivery, under the one stable id of its lane.
//
//	first delivery of a process, or after one whose end is not known:
//	  describe, repair, abort, clean, seal     as a fence does: evidence first
//	InitProducerID                             whoever delivers beside it is fenced
//	read the marker                            there: nothing is to be done
//	rows, marker, EndTxn, verify, heal
//
// Between InitProducerID and the end nobody else can commit under the id, so what the
// marker said stays true. Nothing is prepared, so nothing can time out between deliveries:
// the brokers may be away for longer than any transaction lives.
//
// The note of the marker names the attempt that wrote it. A fence writes the marker again
// under its own attempt, and a stopped process of a lower attempt that goes on finds that
// and stops.
type Short struct {
	Subtask    int
	Checkpoint stream.CheckpointID
	// Attempt delivers.
	Attempt stream.Attempt
	// Since is before any delivery of the epoch: a marker that is missing longer than
	// markers are kept proves nothing.
	Since time.Time
	// Rows calls produce with each row in order. Its memory must stay as it is until the
	// delivery has ended.
	Rows func(produce func(*kgo.Record) error) error
	// Client are the options of the producer: partitions, compression.
	Client []kgo.Opt
}

// shortLane is what this process knows of a lane's id.
type shortLane struct {
	mu sync.Mutex
	// known: the last transaction under the id was this process's, and is verified.
	known bool
}

// Shorts delivers short transactions of one sink.
type Shorts struct {
	c     *Client
	mu    sync.Mutex
	lanes map[int]*shortLane
}

// NewShorts returns what delivers through a client, whose timeout must be set.
func NewShorts(c *Client) *Shorts { return &Shorts{c: c, lanes: map[int]*shortLane{}} }

func (s *Shorts) lane(subtask int) *shortLane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[subtask]
	if l == nil {
		l = &shortLane{}
		s.lanes[subtask] = l
	}
	return l
}

// Deliver commits the rows of an epoch, once: an epoch whose marker is there is left as it
// is. Errors of class Retry mean that the same delivery may be tried again.
func (s *Shorts) Deliver(ctx context.Context, d Short) (r sink.Result, err error) {
	err = s.under(ctx, d.Subtask, d.Client, func(p *shortProducer, m Marker) error {
		fault.Point("wal.kafka.initialised")
		switch owner := noteAttempt(m.Note); {
		case owner > d.Attempt:
			return stream.Errorf(stream.Fenced, "kafka.fenced", "deliver", p.txn.TxID, "attempt %d has taken the lane over (marker %s)", owner, m.Checkpoint)
		case m.Checkpoint >= d.Checkpoint:
			r = sink.Result{Outcome: sink.Already, ByMarker: true, Detail: fmt.Sprintf("the marker is %s (%s)", m.Checkpoint, m.Note)}
			return nil
		case m.Checkpoint == stream.NoCheckpoint && m.Note == "" && s.c.Expired(d.Since):
			r = sink.Result{Outcome: sink.Undecided, Detail: fmt.Sprintf("there is no marker, and one written at %s may have expired (offsets.retention %v)", d.Since.Format(time.RFC3339), s.c.Limits.OffsetsRetention)}
			return nil
		}
		if err := p.produce(ctx, d.Rows); err != nil {
			return err
		}
		fault.Point("wal.kafka.written")
		r, err = p.commit(ctx, d.Subtask, d.Checkpoint, shortNote(d.Attempt, "rows"))
		return err
	})
	return r, err
}

// Fence makes sure that no lower attempt can deliver on a lane any more: what it has open
// is ended, and the marker says from now on whose the lane is.
func (s *Shorts) Fence(ctx context.Context, attempt stream.Attempt, subtask int, opts []kgo.Opt) error {
	return s.under(ctx, subtask, opts, func(p *shortProducer, m Marker) error {
		if noteAttempt(m.Note) >= attempt || unchecked() {
			return nil // a later attempt keeps the earlier ones out for this one, too
		}
		note := shortNote(attempt, "fence")
		if r, err := p.commit(ctx, subtask, m.Checkpoint, note); err != nil || r.Outcome != sink.Done {
			return errors.Join(err, again("fence lane", "%s: %s", r.Outcome, r.Detail))
		}
		return s.noted(ctx, subtask, note)
	})
}

// notePatience is how long a fence waits for its own note: a commit is answered before its
// markers are written, and the number of the marker, which stays, does not tell.
const notePatience = 10 * time.Second

// noted returns when the marker of a lane has a note.
func (s *Shorts) noted(ctx context.Context, subtask int, note string) error {
	ctx, cancel := context.WithTimeout(ctx, notePatience)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		m, err := s.c.NewestMarker(ctx, s.c.o.Names.Group(subtask))
		if err != nil || m.Note == note {
			return err
		}
		if s.c.o.World.Clock.Sleep(ctx, wait) != nil {
			return again("fence lane", "the marker says %q instead of %q", m.Note, note)
		}
	}
}

func again(op, format string, args ...any) error {
	return stream.Errorf(stream.Retry, "kafka.short", op, "", format, args...)
}

func shortNote(a stream.Attempt, what string) string { return fmt.Sprintf("%d/%s", a, what) }

// noteAttempt returns which attempt wrote a marker, 0 when that cannot be told.
func noteAttempt(note string) stream.Attempt {
	text, _, _ := strings.Cut(note, "/")
	n, _ := strconv.ParseUint(text, 10, 32)
	return stream.Attempt(n)
}

// under makes the lane's id this call's alone, and calls f with a producer under it and
// the marker as it is then.
func (s *Shorts) under(ctx context.Context, subtask int, opts []kgo.Opt, f func(*shortProducer, Marker) error) error {
	l := s.lane(subtask)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known
	l.known = false
	if !known {
		if err := s.settle(ctx, s.c.o.Names.ShortID(subtask)); err != nil {
			return err
		}
	}
	p, err := s.producer(ctx, subtask, opts)
	if err != nil {
		return err
	}
	defer p.cl.Close()
	m, err := s.c.NewestMarker(ctx, s.c.o.Names.Group(subtask))
	if err != nil {
		return err
	}
	if err := f(p, m); err != nil {
		return err
	}
	l.known = p.known
	return nil
}

// settle ends what any process left under an id, and repairs what its coordinator left
// behind, before InitProducerID destroys the evidence.
func (s *Shorts) settle(ctx context.Context, txid string) error {
	f, err := s.c.newFence(ctx, nil)
	if err != nil {
		return err
	}
	return f.one(ctx, txid)
}

// Expired reports whether a marker that was written at some time since may have been
// forgotten by the group coordinator.
func (c *Client) Expired(since time.Time) bool {
	return c.mayHaveExpired(&Payload{StartMillis: since.UnixMilli()})
}
