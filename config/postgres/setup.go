package postgres

import (
	"context"

	"etl/config"
	"etl/sink/sqltxn"
	"etl/stream"
)

// setup makes what etl sink init runs out of the two functions of a sink.
func setup(c *config.Component,
	statements func(ctx context.Context, w stream.World, job string, uid stream.UID, role string) ([]sqltxn.Statement, error),
	apply func(ctx context.Context, w stream.World, job string, uid stream.UID, role string) error) *config.Setup {
	return &config.Setup{
		Statements: func(ctx context.Context, w stream.World, role string) (out []config.Statement, err error) {
			all, err := statements(ctx, w, c.Job.Name, c.UID, role)
			for _, s := range all {
				out = append(out, config.Statement{Text: s.SQL, Why: s.Why})
			}
			return out, err
		},
		Apply: func(ctx context.Context, w stream.World, role string) error {
			return apply(ctx, w, c.Job.Name, c.UID, role)
		},
	}
}
