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
	if i, ok := w.guarded(s); ok {
		cfg.Guard = idem.Guard(c.Guard(i, &p))
	}
	cfg = cfg.WithDefaults()
	refuse(c, s, cfg.Problems())
	own := postgres.New(cfg)
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: own.Features(), NewWriter: own.NewWriter}
	p.Outage = "any outage loses nothing: rows since the last checkpoint are written again; reading stops meanwhile"
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

// guarded says what the guard of the sink can be, when it has a key, which is among the columns.
func (w *writing) guarded(s *Sink) (i config.Idempotent, ok bool) {
	i = config.Idempotent{Version: s.Version, KeyPath: "key", By: w.columns.distribution()}
	for _, k := range s.Key {
		text, there := w.columns.texts[k]
		if !there {
			return i, false
		}
		i.Key = append(i.Key, text)
	}
	if s.Mode == string(sqltxn.UpsertDelete) {
		i.None = "mode upsert_delete: a deleted row leaves no version behind"
	}
	return i, len(i.Key) > 0
}
