package postgres

import (
	"context"

	"etl/config"
	"etl/pipeline"
	idem "etl/sink/idempotent"
	"etl/sink/idempotent/postgres"
	"etl/sink/sqltxn"
	"etl/stream"
)

// idempotent makes a sink of delivery idempotent.
func (o Options) idempotent(c *config.Component, s *Sink, w *writing) config.Parts {
	if !c.Has("mode") {
		s.Mode = string(sqltxn.Upsert)
		w.parts.Detail = detail(s)
	}
	for _, key := range []string{"memory", "spill_dir"} {
		if c.Has(key) {
			c.Problem(key, "sink.delivery", key+" is for rows that wait for their checkpoint, and delivery: idempotent writes at once", "remove "+key)
		}
	}
	positive(c, s)
	p := w.parts
	cfg := postgres.Config{Conn: w.config, Table: s.Table, Mode: sqltxn.Mode(s.Mode), Key: s.Key, Columns: w.columns.names, Encoder: w.columns.encoder,
		VersionColumn: s.VersionCol, ScopeColumn: s.ScopeCol, LockTimeout: s.LockTimeout.Std(), OnError: idem.OnError(c.OnError()), Policy: c.Job.Policy}
	cfg.Guard = idem.Guard(c.Guard(w.guarded(s), &p))
	cfg = cfg.WithDefaults()
	for _, err := range cfg.Problems() {
		if key := place(s, err); key != "" { // the rest is the connection's
			c.Reject(key, err)
		}
	}
	own := postgres.New(cfg)
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: own.Features(), NewWriter: own.NewWriter}
	p.Setup = setup(c, cfg.Setup, cfg.Initialise)
	p.Preflight = func(ctx context.Context, world stream.World) (facts config.Facts, err error) {
		f, errs := cfg.Preflight(ctx, world, c.Job.Name, c.UID)
		if f.Target != nil {
			own := *f.Target
			own.Columns = own.Columns[:len(w.columns.programs)] // without the guard's
			errs = append(errs, w.columns.fits(&own)...)
			w.columns.target.Store(&own)
		}
		for _, err := range errs {
			facts.Found = append(facts.Found, config.Found{Path: place(s, err), Err: err})
		}
		return facts, nil
	}
	return p
}

// guarded says what the guard of the sink can be.
func (w *writing) guarded(s *Sink) config.Idempotent {
	i := config.Idempotent{Version: s.Version, KeyPath: "key", By: w.columns.distribution()}
	for _, k := range s.Key {
		if text, ok := w.columns.texts[k]; ok {
			i.Key = append(i.Key, text)
		}
	}
	if s.Mode == string(sqltxn.UpsertDelete) {
		i.None = "mode upsert_delete: a deleted row leaves no version behind"
	}
	return i
}
