package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"etl/internal/fault"
	"etl/sink"
	"etl/sink/wal"
	"etl/stream"
)

// back delivers epochs.
type back struct {
	cfg    Config
	env    sink.CommitEnv
	client *http.Client

	mu    sync.Mutex
	lanes map[int]*lane
}

// lane is how far the delivery of a lane has come in this process. Only its ledger lane
// uses it.
type lane struct {
	id       stream.CheckpointID // the epoch it speaks of
	next     int                 // the first request that is not answered for good
	rejects  []reject
	failures int // in a row
}

// Open makes the client. It asks the endpoint nothing: there is nothing to ask.
func (b *back) Open(_ context.Context, env sink.CommitEnv) error {
	b.env = env
	t := &http.Transport{DialContext: env.Dial, TLSClientConfig: b.cfg.TLS, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: b.cfg.Parallelism, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}
	b.client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// Probe knows nothing but that the rows are there to be delivered.
func (b *back) Probe(_ context.Context, e *wal.Entry, _ time.Time) (sink.Probed, error) {
	return sink.Probed{Status: sink.Open, Detail: fmt.Sprintf("%d segments; the endpoint cannot be asked what it has", e.Segments())}, nil
}

// Marker returns none: the endpoint holds no marker.
func (b *back) Marker(context.Context, int) (stream.CheckpointID, error) {
	return stream.NoCheckpoint, nil
}

func (b *back) lane(e *wal.Entry) *lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[e.Subtask]
	if l == nil {
		l = &lane{}
		b.lanes[e.Subtask] = l
	}
	if l.id != e.Checkpoint {
		*l = lane{id: e.Checkpoint, failures: l.failures}
	}
	return l
}

// Deliver makes the requests of an epoch, in order, from the first one that was not
// answered yet. A failure is paused for here, so that the pause grows across calls.
func (b *back) Deliver(ctx context.Context, e *wal.Entry) (sink.Result, error) {
	d := &delivery{b: b, e: e, lane: b.lane(e)}
	if err := wal.Strict(e.Plan, &d.plan); err != nil || d.plan.MaxRows < 1 || d.plan.MaxBytes < 1 {
		return sink.Result{}, stream.Errorf(stream.RestoreRefused, "wal.committable", "read committable", fmt.Sprintf("checkpoint %s of %s", e.Checkpoint, e.Lane()), "its plan is %s: %w", e.Plan, errors.Join(err))
	}
	err := d.run(ctx)
	if stream.ClassOf(err) == stream.Retry && ctx.Err() == nil {
		return sink.Result{}, b.pause(ctx, d.lane, err)
	}
	if err != nil {
		return sink.Result{}, err
	}
	n := int64(len(d.lane.rejects))
	if n > 0 {
		if err := d.putAside(ctx); err != nil {
			return sink.Result{}, err
		}
	}
	*d.lane = lane{}
	return sink.Result{Outcome: sink.Done, Rejects: n, Detail: d.rejectName()}, nil
}

// pause waits after a failure, as long as the endpoint asks for, or longer each time, and
// returns it.
func (b *back) pause(ctx context.Context, l *lane, err error) error {
	wait := b.cfg.RetryMax
	if l.failures < 20 {
		wait = min(wait, b.cfg.RetryInitial<<l.failures)
	}
	l.failures++
	var later *laterError
	if errors.As(err, &later) && later.after > 0 {
		wait = min(later.after, b.cfg.RetryMax)
	}
	b.env.Log.Info("a request will be made again", "sink", b.env.UID, "checkpoint", l.id.String(), "request", l.next, "failures", l.failures, "pause", wait.String(), "error", err)
	if serr := b.env.Clock.Sleep(ctx, wait); serr != nil {
		return serr
	}
	return err
}

// Fence has nothing to end: between two requests there is nothing outside. What a stopped
// process of an earlier attempt sends when it goes on has the keys of what is sent here.
func (b *back) Fence(context.Context, []stream.Attempt, []*wal.Entry) error { return nil }

// Inspect lists nothing: the endpoint cannot be asked.
func (b *back) Inspect(context.Context) ([]sink.InDoubt, error) { return nil, nil }

// Retired has nothing to do.
func (b *back) Retired(int, stream.CheckpointID) {}

// Close closes the connections.
func (b *back) Close() error {
	if b.client != nil {
		b.client.CloseIdleConnections()
	}
	return nil
}

// delivery is one epoch on its way.
type delivery struct {
	b    *back
	e    *wal.Entry
	lane *lane
	plan plan

	batch []item
	buf   [][]byte // memory of the rows in batch
	size  int
	seq   int
}

// run cuts the rows into requests and makes those that are not answered.
func (d *delivery) run(ctx context.Context) error {
	err := d.e.EachRow(ctx, func(row []byte) error {
		it, err := readRow(row)
		if err != nil {
			return stream.Errorf(stream.RestoreRefused, "wal.row", "read segment", fmt.Sprintf("checkpoint %s of %s", d.e.Checkpoint, d.e.Lane()), "%w", err)
		}
		if len(d.batch) > 0 && (len(d.batch) == d.plan.MaxRows || d.size+len(it.json) > d.plan.MaxBytes) {
			if err := d.flush(ctx); err != nil {
				return err
			}
		}
		d.keep(it)
		return nil
	})
	if err == nil && len(d.batch) > 0 {
		err = d.flush(ctx)
	}
	return err
}

// keep copies a row, for the next segment is read into the same memory.
func (d *delivery) keep(it item) {
	n := len(d.batch)
	if n == len(d.buf) {
		d.buf = append(d.buf, nil)
	}
	d.buf[n] = append(d.buf[n][:0], it.json...)
	it.json = d.buf[n]
	d.batch, d.size = append(d.batch, it), d.size+len(it.json)+1
}

// flush makes the next request, unless it was answered before.
func (d *delivery) flush(ctx context.Context) error {
	seq, rows := d.seq, d.batch
	d.seq++
	d.batch, d.size = d.batch[:0], 0
	if seq < d.lane.next {
		return nil
	}
	kept := len(d.lane.rejects)
	if err := d.send(ctx, fmt.Sprintf("%s/%d", d.key(), seq), rows, 0, len(rows)); err != nil {
		d.lane.rejects = d.lane.rejects[:kept] // they are found again
		return err
	}
	d.lane.next, d.lane.failures = seq+1, 0
	fault.Point("wal.http.answered")
	return nil
}

// maxRejects is how many rows of one epoch are put aside. More than that is not bad rows
// but a wrong endpoint.
const maxRejects = 1000

// send makes one request with rows lo to hi of a batch, and halves it when it is refused.
// Halves have keys of their own: the endpoint may remember the answer to the whole.
func (d *delivery) send(ctx context.Context, key string, rows []item, lo, hi int) error {
	own := key
	if hi-lo < len(rows) {
		own = fmt.Sprintf("%s/%d-%d", key, lo, hi)
	}
	err := d.request(ctx, own, rows[lo:hi])
	var refused *refusedError
	if !errors.As(err, &refused) {
		return err
	}
	if hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if err := d.send(ctx, key, rows, lo, mid); err != nil {
			return err
		}
		return d.send(ctx, key, rows, mid, hi)
	}
	it := &rows[lo]
	if !d.b.cfg.Sort {
		return stream.Errorf(stream.Failed, "http.row_after_publish", "deliver", fmt.Sprintf("%s/%d@%d", it.place.Topic, it.place.Partition, it.place.Offset), "the endpoint refuses the row with status %d; it and the rows behind it stay in the log", refused.status).
			WithFix("mend the endpoint and start the job again, or set on_error: skip or dead_letter, which puts such rows into %s in the job's storage", rejectFolder(d.b.env.UID))
	}
	d.lane.rejects = append(d.lane.rejects, d.rejected(own, it, refused))
	if len(d.lane.rejects) > maxRejects {
		return stream.Errorf(stream.Failed, "http.too_many_bad_rows", "deliver", d.e.Checkpoint.String(), "the endpoint refuses more than %d rows of one checkpoint, the last one with status %d", maxRejects, refused.status).
			WithFix("compare the rows with what the endpoint expects; they stay in the log")
	}
	return nil
}
