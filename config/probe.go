package config

import (
	"context"
	"errors"
	"slices"
	"strings"

	"etl/stream"
)

// Probe asks the servers of the job all that a start asks them (Preflight), and beyond
// it, by name, for every right and setting that a run will need. It changes nothing.
func (j *Job) Probe(ctx context.Context, w stream.World) Problems {
	j.Preflight(ctx, w)
	b := j.build() // holds what that has found
	for _, c := range j.Components {
		if c.parts.Probe == nil || c.unasked() {
			continue
		}
		for _, f := range c.parts.Probe(ctx, w) {
			c.found(f)
		}
	}
	return b.all()
}

// unasked reports whether there is no point in asking the component's server: it was
// reported already that it is away.
func (c *Component) unasked() bool { return c.to != nil && c.to.away }

// aways are the ends of codes which say that a server cannot be asked anything.
var aways = []string{"unreachable", "sasl", "auth", "authentication", "database", "tls", "wrong_port"}

// found reports what a server has told. That it is away is told once, of its connection.
func (c *Component) found(f Found) {
	var e *stream.Error
	if f.Warning && errors.As(f.Err, &e) {
		c.Warn(f.Path, e.Code, sentence(e), e.Fix)
		return
	}
	err := lacking(f.Err)
	_, end, _ := strings.Cut(stream.CodeOf(err), ".")
	if c.to == nil || !errors.As(err, &e) || !slices.Contains(aways, end) {
		c.Reject(f.Path, err)
		return
	}
	if c.to.away {
		return
	}
	whole := *e
	whole.Subject = "" // what was asked for does not matter
	c.to.away = true
	c.to.Reject("", &whole)
}
