package postgres

import "etl/config"

// idempotent makes a sink of delivery idempotent.
func (o Options) idempotent(c *config.Component, _ *Sink, w *writing) config.Parts {
	c.Problem("delivery", "config.not_yet", "idempotent comes in a later version", "write two_phase")
	return w.parts
}
