package postgres

import (
	"context"
	"sync"

	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Sink is a sink as a program plugs it into a pipeline.
type Sink struct {
	cfg Config

	mu    sync.Mutex
	pools map[stream.Attempt]*pools
}

// New returns a sink. cfg.Policy and cfg.Parallelism must be those of the job.
func New(cfg Config) *Sink {
	return &Sink{cfg: cfg.WithDefaults(), pools: map[stream.Attempt]*pools{}}
}

var _ sink.Connector = (*Sink)(nil)

// NewWriter returns phase one of a subtask.
func (s *Sink) NewWriter() sink.Writer { return &Writer{sink: s, cfg: s.cfg} }

// NewCommitter returns phase two, nil when the mode commits nothing.
func (s *Sink) NewCommitter() sink.Committer {
	if !s.cfg.transactional() {
		return nil
	}
	return &Committer{sink: s, cfg: s.cfg}
}

// Features returns what the sink can do.
func (s *Sink) Features() sink.Features { return s.cfg.Features() }

// identity is whose connections they are.
type identity struct {
	stream.World
	book    sqltxn.Book
	attempt stream.Attempt
}

// pools are the connections of one attempt of the sink, shared by its writers and its
// committer: max_connections bounds all of them. Commits have their own, so that they
// never wait for a writer that waits for them.
type pools struct {
	refs          int
	write, commit *pgconn.Pool

	mu   sync.Mutex
	plan *plan
}

// plan is what the server and the table allow.
type plan struct {
	Choice
	server pgconn.Server
	target *sqltxn.Target
}

// open returns the connections of an attempt. Give them back with release.
func (s *Sink) open(ctx context.Context, id identity) (*pools, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pools[id.attempt]; p != nil {
		p.refs++
		return p, nil
	}
	cfg := s.cfg.Conn
	if cfg.Dial == nil {
		cfg.Dial = id.Dial
	}
	cfg.Log = id.Log
	name := pgconn.Application(id.book.Lineage, id.attempt, id.book.Job, id.book.Sink)
	committing := min(max(s.cfg.Parallelism, 1), cfg.MaxConnections/2)
	commit, err := pgconn.Open(ctx, cfg, committing, name)
	if err != nil {
		return nil, err
	}
	write, err := pgconn.Open(ctx, cfg, cfg.MaxConnections-committing, name)
	if err != nil {
		commit.Close()
		return nil, err
	}
	p := &pools{refs: 1, write: write, commit: commit}
	s.pools[id.attempt] = p
	return p, nil
}

// release gives connections back; the last one closes them.
func (s *Sink) release(id identity, p *pools) {
	s.mu.Lock()
	p.refs--
	last := p.refs == 0
	if last {
		delete(s.pools, id.attempt)
	}
	s.mu.Unlock()
	if last {
		p.write.Close()
		p.commit.Close()
	}
}

// resolve looks at server and table and decides how to write, once for all subtasks.
func (s *Sink) resolve(ctx context.Context, id identity, p *pools) (*plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan != nil {
		return p.plan, nil
	}
	found, errs := s.look(ctx, id, p.write)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	id.Log.Info("strategy chosen", "sink", id.book.Sink, "strategy", string(found.Strategy), "reason", found.Reason, "table", s.cfg.Table)
	p.plan = found
	return found, nil
}

// look finds out what there is, and everything that is wrong with it.
func (s *Sink) look(ctx context.Context, id identity, pool *pgconn.Pool) (*plan, []error) {
	one := func(err error) (*plan, []error) { return nil, []error{err} }
	server, err := pool.Inspect(ctx, id.Clock)
	if err != nil {
		return one(err)
	}
	p := &plan{server: server}
	if server.StatementPooling {
		_, err := Choose(s.cfg, server, nil)
		return one(err)
	}
	var errs []error
	err = pool.With(ctx, func(c *pgconn.Conn) (err error) {
		if p.target, errs = s.target(ctx, c); len(errs) > 0 {
			return nil
		}
		if p.Choice, err = Choose(s.cfg, server, p.target); err != nil || p.Strategy == direct {
			return err
		}
		staged := p.Strategy == Staged
		if err := id.book.CheckRights(ctx, c, p.target, staged); err != nil || !staged {
			return err
		}
		return id.book.CheckStage(ctx, c, p.target)
	})
	if err != nil {
		errs = append(errs, err)
	}
	return p, errs
}

// target reads the table's definition.
func (s *Sink) target(ctx context.Context, c *pgconn.Conn) (*sqltxn.Target, []error) {
	schema, name, err := sqltxn.SplitTable(s.cfg.Table)
	if err != nil {
		return nil, []error{err}
	}
	t, err := sqltxn.LoadTable(ctx, c, schema, name)
	if err != nil {
		return nil, []error{err}
	}
	return sqltxn.NewTarget(t, s.cfg.Mode, s.cfg.Columns, s.cfg.Key)
}
