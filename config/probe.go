package config

import (
	"context"

	"etl/stream"
)

// Probe asks the servers of the job all that a start asks them (Preflight), and beyond
// it, by name, for every right and setting that a run will need. It changes nothing.
func (j *Job) Probe(ctx context.Context, w stream.World) Problems {
	j.Preflight(ctx, w)
	b := j.build() // holds what that has found
	for _, c := range j.Components {
		if c.parts.Probe == nil {
			continue
		}
		for _, f := range c.parts.Probe(ctx, w) {
			c.Reject(f.Path, lacking(f.Err))
		}
	}
	return b.all()
}
