package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/stream"
)

// Committer is phase two of a sink; package kafkatxn does the work. Sinks of all modes
// have one: a job that was exactly_once before may have left transactions behind.
type Committer struct {
	cfg Config
	env sink.CommitEnv
	raw *kafkatxn.Client

	cancel context.CancelFunc // ends the sweeper
	wg     sync.WaitGroup
	keep   []*kafkatxn.Payload // what the sweeper leaves alone

	mu     sync.Mutex
	newest map[int]stream.CheckpointID // committed here, by subtask
}

// NewCommitter returns a committer of a sink. Config need not have its defaults.
func NewCommitter(cfg Config) *Committer {
	return &Committer{cfg: cfg.WithDefaults(), newest: map[int]stream.CheckpointID{}}
}

var _ sink.Committer = (*Committer)(nil)

// Open connects and tries every right that a commit and its verification need.
func (c *Committer) Open(ctx context.Context, env sink.CommitEnv) (err error) {
	c.env = env
	names := c.cfg.names(env.Job, env.UID, env.Lineage)
	if c.raw, err = kafkatxn.Open(ctx, c.cfg.options(env.World, names, c.cfg.TransactionTimeout)); err != nil {
		return fmt.Errorf("open committer of %s: %w", env.UID, err)
	}
	timeout, err := kafkatxn.Timeout(c.cfg.TransactionTimeout, c.raw.Limits)
	if err != nil {
		return err
	}
	c.raw.SetTimeout(timeout)
	if !c.cfg.transactional() {
		return nil
	}
	if err := c.raw.Preflight(ctx, 0, env.Attempt); err != nil {
		return fmt.Errorf("open committer of %s: %w", env.UID, err)
	}
	return nil
}

// Probe looks at committables without changing anything (V4).
func (c *Committer) Probe(ctx context.Context, cs []checkpoint.Committable, published time.Time) ([]sink.Probed, error) {
	out := make([]sink.Probed, len(cs))
	for i := range cs {
		p, err := kafkatxn.Decode(&cs[i])
		if err != nil {
			return nil, err
		}
		if out[i], err = c.raw.Probe(ctx, p, cs[i].Checkpoint, published); err != nil {
			return nil, err
		}
	}
	fault.Point("kafka.recover.probed")
	return out, nil
}

// Marker returns the newest committed checkpoint of a lane. A job that has published
// nothing refuses the marker of an earlier life of the same name, however often it is
// started (I12).
func (c *Committer) Marker(ctx context.Context, subtask int) (stream.CheckpointID, error) {
	if c.env.Fresh {
		if err := c.raw.Foreign(ctx); err != nil {
			return stream.NoCheckpoint, err
		}
	}
	m, err := c.raw.NewestMarker(ctx, c.cfg.names(c.env.Job, c.env.UID, c.env.Lineage).Group(subtask))
	return m.Checkpoint, err
}

// Commit commits, verifies and heals what the permit covers (B10, V5).
func (c *Committer) Commit(ctx context.Context, permit checkpoint.Permit, cm checkpoint.Committable) (sink.Result, error) {
	if !permit.Covers(&cm) {
		return sink.Result{}, fmt.Errorf("I5: checkpoint %s of %s is not covered by the permit of %s", cm.Checkpoint, cm.Lane(), permit.ID())
	}
	p, err := kafkatxn.Decode(&cm)
	if err != nil {
		return sink.Result{}, err
	}
	if err := c.inOrder(ctx, p, &cm); err != nil {
		return sink.Result{}, err
	}
	r, err := c.raw.Commit(ctx, p, cm.Checkpoint)
	if err == nil && (r.Outcome == sink.Done || r.Outcome == sink.Already) {
		c.mu.Lock()
		c.newest[cm.Subtask] = max(c.newest[cm.Subtask], cm.Checkpoint)
		c.mu.Unlock()
	}
	return r, err
}

// inOrder refuses to commit what is still open behind a later commit of its lane: the
// marker would go back, and from then on call the later one uncommitted. Lanes see to
// the order; this is for whoever calls without one, and costs nothing in order.
func (c *Committer) inOrder(ctx context.Context, p *kafkatxn.Payload, cm *checkpoint.Committable) error {
	c.mu.Lock()
	newest := c.newest[cm.Subtask]
	c.mu.Unlock()
	if cm.Checkpoint >= newest {
		return nil
	}
	s, err := c.raw.Probe(ctx, p, cm.Checkpoint, c.env.Clock.Now())
	if err == nil && s.Status == sink.Open {
		err = fmt.Errorf("I5: checkpoint %s of %s is open behind %s, which is committed", cm.Checkpoint, cm.Lane(), newest)
	}
	return err
}

// Fence ends what the owners left, less keep (V6), and from then on sweeps up what a
// stopped process of a lower attempt does when it goes on.
func (c *Committer) Fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	payloads := make([]*kafkatxn.Payload, len(keep))
	for i := range keep {
		p, err := kafkatxn.Decode(&keep[i])
		if err != nil {
			return err
		}
		payloads[i] = p
	}
	lanes := kafkatxn.Lanes{Subtasks: c.cfg.Parallelism, Slots: c.cfg.Slots()}
	if err := c.raw.Fence(ctx, owners, lanes, payloads); err != nil {
		return fmt.Errorf("fence earlier attempts of %s: %w", c.env.UID, err)
	}
	if c.cancel == nil {
		sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c.cancel, c.keep = cancel, payloads
		c.wg.Go(func() { c.raw.Sweeper(sctx, c.env.Attempt, payloads) })
	}
	return nil
}

// Inspect lists what is in doubt under this job and sink, read-only.
func (c *Committer) Inspect(ctx context.Context) ([]sink.InDoubt, error) { return c.raw.Inspect(ctx) }

// Close ends the sweeper, after a last sweep, and the connections.
func (c *Committer) Close() error {
	if c.cancel != nil {
		c.cancel()
		c.wg.Wait()
		c.sweep()
	}
	if c.raw != nil {
		c.raw.Close()
	}
	return nil
}

// lastSweep bounds the sweep of a process that ends.
const lastSweep = 2 * time.Second

// sweep ends what a stopped process of an earlier attempt opened since the last sweep:
// when this process is gone, nobody would do it before the transaction times out, and
// readers would wait that long.
func (c *Committer) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSweep)
	defer cancel()
	if n, err := c.raw.Sweep(ctx, c.env.Attempt, c.keep); err != nil {
		c.env.Log.Info("no last sweep of transactions of earlier attempts", "err", err)
	} else if n > 0 {
		c.env.Log.Warn("ended transactions that a stopped process of an earlier attempt had opened", "transactions", n)
	}
}
