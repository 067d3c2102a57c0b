package postgres

import (
	"context"
	"fmt"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/sink/sqltxn"
	"etl/sink/twophase/postgres"
	"etl/sink/wal"
	walpg "etl/sink/wal/postgres"
	"etl/stream"
)

// wal makes a sink of delivery wal.
func (o Options) wal(c *config.Component, s *Sink, w *writing) config.Parts {
	p := w.parts
	if mode := c.Job.Policy.Mode; mode != checkpoint.ExactlyOnce {
		c.Problem("delivery", "sink.delivery", "wal needs checkpoints of mode exactly_once, and the mode is "+string(mode), "write at_least_once, or set checkpoint.mode: exactly_once")
	}
	positive(c, s)
	w.check(c, s)
	onError := c.OnError()
	cfg := walpg.Config{Conn: w.config, Table: s.Table, Mode: sqltxn.Mode(s.Mode), Key: s.Key, Columns: w.columns.names, Encoder: w.columns.encoder,
		Schema: w.conn.Schema, LockTimeout: s.LockTimeout.Std(), Memory: int64(s.Memory), SpillDir: s.SpillDir, Sort: onError != string(pipeline.Fail),
		KeepRecords: onError == string(pipeline.DeadLetter), Parallelism: c.Parallelism, AcceptForeign: o.AcceptForeign, Log: wal.Options{MaxLog: int64(s.MaxLog)}}
	own := walpg.New(cfg)
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: cfg.Features(), NewWriter: own.NewWriter, NewCommitter: own.NewCommitter}
	p.Notes = []string{"rows wait in checkpoint storage until their checkpoint is complete, then go to the table in one transaction with its marker"}
	p.Outage = fmt.Sprintf("any outage loses nothing: rows wait in the log, and at max_log %v or 500 checkpoints reading stops", s.MaxLog)
	p.Setup = setup(c, cfg.Setup, cfg.Initialise)
	p.Preflight = func(ctx context.Context, world stream.World) (facts config.Facts, err error) {
		g, errs := cfg.Preflight(ctx, world, c.Job.Name, c.UID)
		if g != nil {
			errs = append(errs, w.columns.fits(g)...)
			w.columns.target.Store(g)
		}
		for _, err := range errs {
			facts.Found = append(facts.Found, config.Found{Path: place(s, err), Err: err})
		}
		return facts, nil
	}
	return p
}

// check reports what can be wrong with table and columns without connecting: it is the
// same for every way of delivery that keeps rows.
func (w *writing) check(c *config.Component, s *Sink) {
	cfg := postgres.Config{Conn: w.config, Table: s.Table, Mode: sqltxn.Mode(s.Mode), Key: s.Key, Columns: w.columns.names, Schema: w.conn.Schema,
		LockTimeout: s.LockTimeout.Std(), Memory: int64(s.Memory)}.WithDefaults()
	refuse(c, s, cfg.Problems())
}
