package postgres

import (
	"context"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/sink/twophase/postgres"
	"etl/stream"
)

// twoPhase makes a sink of delivery two_phase, or at_least_once, which is the same writer
// committing at the barrier.
func (o Options) twoPhase(c *config.Component, s *Sink, w *writing) config.Parts {
	cfg := postgres.Config{Conn: w.config, Table: s.Table, Mode: sqltxn.Mode(s.Mode), Key: s.Key, Columns: w.columns.names, Encoder: w.columns.encoder,
		Strategy: postgres.Strategy(s.Strategy), Schema: w.conn.Schema, LockTimeout: s.LockTimeout.Std(), Memory: int64(s.Memory), SpillDir: s.SpillDir,
		OnError: postgres.OnError(c.OnError()), Policy: c.Job.Policy, Parallelism: c.Parallelism, AcceptForeign: o.AcceptForeign}
	p := w.parts
	if s.Delivery == "at_least_once" {
		if cfg.Policy.Mode == checkpoint.ExactlyOnce {
			cfg.Policy.Mode = checkpoint.AtLeastOnce
		}
		p.Limits = append(p.Limits, config.Limit{Level: config.AtLeastOnce, Setting: "delivery: at_least_once", Why: "rows are written before their checkpoint is complete, and again after a failure"})
	}
	positive(c, s)
	cfg = cfg.WithDefaults()
	refuse(c, s, cfg.Problems())
	own := postgres.New(cfg)
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: cfg.Features(), NewWriter: own.NewWriter}
	p.Outage = outage(s)
	if s.Delivery == "two_phase" {
		p.Sink.NewCommitter = func() sink.Committer { return own.NewCommitter() }
		p.Notes = strategyNotes(s)
		if s.Strategy == string(postgres.Prepared) {
			p.Claims = []config.Claim{{Kind: "table of prepared transactions", Name: w.name(), Path: "table"}}
		}
	}
	p.Preflight = func(ctx context.Context, world stream.World) (config.Facts, error) {
		return preflight(ctx, world, c, s, w, own)
	}
	if s.Delivery == "two_phase" { // what commits at the barrier keeps no books
		p.Setup = setup(c, own.Setup, own.Initialise)
	}
	return p
}

// positive refuses zeros, which would be taken for "not given".
func positive(c *config.Component, s *Sink) {
	if s.LockTimeout == 0 {
		c.Problem("lock_timeout", "postgres.lock_timeout", "0s would wait for a lock for ever, and a prepared transaction can hold one for ever", "write 10s, or remove it")
	}
	if s.Memory == 0 {
		c.Problem("memory", "postgres.memory", "an epoch without memory cannot be kept", "write 64MiB, or remove it")
	}
}

// strategyNotes say, before a server was asked, what the strategy means.
func strategyNotes(s *Sink) []string {
	switch s.Strategy {
	case string(postgres.Prepared):
		return []string{"strategy prepared: rows wait in prepared transactions, and hold their locks, until their checkpoint is complete"}
	case string(postgres.Staged):
		return []string{"strategy staged: rows wait in a staging table until their checkpoint is complete"}
	}
	return []string{"strategy auto: prepared where no two rows can meet and the server allows it, else staged; the start says which and why"}
}

// outage says what becomes of rows while the server is away.
func outage(s *Sink) string {
	const loses, stops = "any outage loses nothing: ", "; reading stops meanwhile"
	switch {
	case s.Delivery == "at_least_once":
		return loses + "rows since the last checkpoint are written again" + stops
	case s.Strategy == string(postgres.Prepared):
		return loses + "what is prepared has no time limit and waits in the server, with its locks" + stops
	case s.Strategy == string(postgres.Staged):
		return loses + "what is staged waits in the staging table" + stops
	}
	return loses + "what is prepared (with its locks, without a time limit) or staged waits in the server" + stops
}

// preflight asks the server what the file cannot tell: types, rights, and the strategy.
func preflight(ctx context.Context, world stream.World, c *config.Component, s *Sink, w *writing, own *postgres.Sink) (facts config.Facts, err error) {
	f, errs := own.Preflight(ctx, world, c.Job.Name, c.UID)
	if f.Target != nil {
		errs = append(errs, w.columns.fits(f.Target)...)
		w.columns.target.Store(f.Target)
	}
	for _, err := range errs {
		facts.Found = append(facts.Found, config.Found{Path: place(s, err), Err: err})
	}
	for _, err := range f.Warnings {
		facts.Found = append(facts.Found, config.Found{Path: "connection", Err: err, Warning: true})
	}
	if s.Delivery == "two_phase" && f.Strategy != "" {
		facts.Notes = []string{"strategy " + f.String(), f.Server.String()}
	}
	return facts, nil
}
