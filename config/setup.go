package config

import (
	"context"

	"etl/stream"
)

// Setup is what somebody with more rights than the job has to do once, before a component
// can run.
type Setup struct {
	// Statements returns what to do outside, for the role that the job will run as; "" is
	// the role of the component's own connection. It changes nothing.
	Statements func(ctx context.Context, w stream.World, role string) ([]Statement, error)
	// Apply does it. Doing it again changes nothing. A role of "" needs no grants: it owns
	// what it makes.
	Apply func(ctx context.Context, w stream.World, role string) error
}

// Statement is one thing to do, in the words of the outside system.
type Statement struct {
	Text string `json:"text"`
	// Why says what it is for, "" when the one before has said so.
	Why string `json:"why,omitempty"`
}

// ComponentSetup are the statements of one component.
type ComponentSetup struct {
	Component  string      `json:"component"`
	Statements []Statement `json:"statements"`
}

// Setup connects to the servers of all components that have to be set up, and returns what
// is to be done, or does it. What several components need is listed once.
func (j *Job) Setup(ctx context.Context, w stream.World, role string, apply bool) (out []ComponentSetup, ps Problems) {
	b := j.build()
	b.problems, b.omitted, b.unusable = nil, [2]int{}, nil
	seen := map[Statement]bool{}
	for _, c := range j.Components {
		if c.parts.Setup == nil {
			continue
		}
		statements, err := c.parts.Setup.Statements(ctx, w, role)
		if err == nil && apply {
			err = c.parts.Setup.Apply(ctx, w, role)
		}
		if err != nil {
			c.Reject("", lacking(err))
			continue
		}
		s := ComponentSetup{Component: c.Name}
		for _, one := range statements {
			if !seen[one] {
				seen[one] = true
				s.Statements = append(s.Statements, one)
			}
		}
		out = append(out, s)
	}
	return out, b.all()
}
