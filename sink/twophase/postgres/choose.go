package postgres

import (
	"fmt"
	"strings"

	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Choice is the strategy that a sink uses.
type Choice struct {
	Strategy Strategy
	// Reason is why, in a sentence.
	Reason string
	// Overlap says that epochs are prepared while the last one is not committed.
	Overlap bool
	// Needed is how many prepared transactions there can be at once; 0 when staged.
	Needed int
}

// String returns the choice in one line.
func (c Choice) String() string { return fmt.Sprintf("%s, because %s", c.Strategy, c.Reason) }

// Choose decides how a sink writes to a table of a server, or says why it cannot as
// asked. It is pure.
//
// Auto prepares where that costs nobody anything: no two rows can meet, so that nobody
// ever waits for a transaction that is prepared. Everything else is staged.
func Choose(cfg Config, s pgconn.Server, g *sqltxn.Target) (Choice, error) {
	cfg = cfg.WithDefaults()
	if s.StatementPooling {
		return Choice{}, stream.Errorf(stream.Environment, "postgres.statement_pooling", "choose a strategy", "sink", "the pooler between gives each statement to another session: no transaction of several statements is possible").
			WithFix("set pool_mode = transaction (or session) for this database, or connect to the server itself")
	}
	if !cfg.transactional() {
		return Choice{Strategy: direct, Reason: "checkpoint.mode is " + string(cfg.Policy.Mode)}, nil
	}
	c := Choice{Strategy: Prepared, Overlap: cfg.Mode == Append && len(g.Table.Uniques) == 0 && !g.Table.Triggers, Needed: cfg.Parallelism}
	if c.Overlap {
		c.Needed *= cfg.Policy.MaxConcurrent + cfg.Policy.TolerableFailures + 1
	}
	switch cfg.Strategy {
	case Staged:
		return Choice{Strategy: Staged, Reason: "strategy is staged"}, nil
	case Prepared:
		c.Reason = "strategy is prepared"
		return c, cannotPrepare(cfg, s, g, c)
	}
	if why := whyStaged(cfg, s, g, c); why != "" {
		return Choice{Strategy: Staged, Reason: why}, nil
	}
	c.Reason = fmt.Sprintf("no two rows of %s can meet, and max_prepared_transactions %d is enough for the %d that are needed", cfg.Table, s.MaxPrepared, c.Needed)
	return c, nil
}

// whyStaged returns why auto does not prepare, "" when it does.
func whyStaged(cfg Config, s pgconn.Server, g *sqltxn.Target, c Choice) string {
	switch {
	case s.MaxPrepared == 0:
		return "max_prepared_transactions of the server is 0"
	case s.MaxPrepared < c.Needed:
		return fmt.Sprintf("max_prepared_transactions of the server is %d, and %d are needed", s.MaxPrepared, c.Needed)
	case cfg.Mode != Append:
		return "the rows of a prepared transaction would stay locked until their checkpoint is committed"
	case g.Table.Triggers:
		return "the table has triggers, whose locks would stay until a checkpoint is committed"
	case !c.Overlap:
		return "of two rows that meet in a unique index (" + strings.Join(uniqueNames(g), ", ") + ") the second would wait until the checkpoint of the first is committed"
	}
	return ""
}

func uniqueNames(g *sqltxn.Target) (out []string) {
	for _, u := range g.Table.Uniques {
		out = append(out, u.Name)
	}
	return out
}

// cannotPrepare refuses what was asked for, with what would be needed: never is something
// weaker, or something else, used silently.
func cannotPrepare(cfg Config, s pgconn.Server, g *sqltxn.Target, c Choice) error {
	refuse := func(code, format string, args ...any) *stream.Error {
		return stream.Errorf(stream.Environment, code, "choose a strategy", "strategy: prepared", format, args...)
	}
	if s.MaxPrepared < c.Needed {
		code := "postgres.prepared_too_few"
		if s.MaxPrepared == 0 {
			code = pgconn.CodePreparedDisabled
		}
		return refuse(code, "max_prepared_transactions of the server is %d, and this sink needs %d", s.MaxPrepared, c.Needed).
			WithFix("set max_prepared_transactions = %d or more in postgresql.conf and restart the server (a standby first), or use strategy: staged", c.Needed)
	}
	if others := g.Conflicting(); len(others) > 0 && cfg.Parallelism > 1 {
		return refuse("postgres.prepared_conflict", "rows of two subtasks can meet in %s, which is not the key: each could wait for what the other has prepared, and no checkpoint would be complete", strings.Join(others, ", ")).
			WithFix("use strategy: staged, or parallelism: 1, or make the columns of the index the key")
	}
	return nil
}
