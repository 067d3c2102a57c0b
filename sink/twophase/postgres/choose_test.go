package postgres

import (
	"strings"
	"testing"

	"etl/checkpoint"
	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/stream"
)

// TestChoose: what is used, what is refused, and why.
func TestChoose(t *testing.T) {
	heap := func(uniques ...sqltxn.Unique) *sqltxn.Target {
		g := &sqltxn.Target{Table: &sqltxn.Table{Schema: "public", Name: "t", Uniques: uniques}, Key: 1}
		g.Columns = []*sqltxn.Column{{Name: "k"}, {Name: "v"}}
		return g
	}
	key := sqltxn.Unique{Name: "t_pkey", Columns: []string{"k"}, Plain: true}
	other := sqltxn.Unique{Name: "t_v", Columns: []string{"v"}, Plain: true}
	triggers := heap()
	triggers.Table.Triggers = true
	server := func(n int) pgconn.Server { return pgconn.Server{Version: 150000, MaxPrepared: n} }
	for _, c := range []struct {
		name   string
		cfg    Config
		server pgconn.Server
		target *sqltxn.Target
		want   Strategy
		says   string // in the reason, or in the error
		code   string
	}{
		{"auto prepares where rows cannot meet", Config{Parallelism: 2}, server(64), heap(), Prepared, "no two rows", ""},
		{"auto, the server has it off", Config{}, server(0), heap(), Staged, "is 0", ""},
		{"auto, too few: overlapping epochs need (1+3+1) each", Config{Parallelism: 2}, server(9), heap(), Staged, "10 are needed", ""},
		{"auto, a unique index", Config{}, server(64), heap(key), Staged, "t_pkey", ""},
		{"auto, triggers", Config{}, server(64), triggers, Staged, "triggers", ""},
		{"auto, upsert", Config{Mode: Upsert, Key: []string{"k"}}, server(64), heap(key), Staged, "locked", ""},
		{"staged, always", Config{Strategy: Staged}, server(64), heap(), Staged, "strategy is staged", ""},
		{"prepared, an upsert has one in flight", Config{Strategy: Prepared, Mode: Upsert, Key: []string{"k"}, Parallelism: 4}, server(4), heap(key), Prepared, "strategy is prepared", ""},
		{"prepared, off", Config{Strategy: Prepared, Mode: Upsert, Key: []string{"k"}, Parallelism: 3}, server(0), heap(key), "", "needs 3", pgconn.CodePreparedDisabled},
		{"prepared, too few", Config{Strategy: Prepared, Parallelism: 2}, server(9), heap(), "", "max_prepared_transactions = 10 or more in postgresql.conf and restart", "postgres.prepared_too_few"},
		{"prepared, rows of two subtasks can meet", Config{Strategy: Prepared, Mode: Upsert, Key: []string{"k"}, Parallelism: 2}, server(64), heap(key, other), "", "t_v", "postgres.prepared_conflict"},
		{"prepared, of one subtask they cannot", Config{Strategy: Prepared, Mode: Upsert, Key: []string{"k"}}, server(64), heap(key, other), Prepared, "", ""},
		{"a pooler in statement mode", Config{}, pgconn.Server{StatementPooling: true}, heap(), "", "pool_mode", "postgres.statement_pooling"},
		{"at least once", Config{Policy: checkpoint.Policy{Mode: checkpoint.AtLeastOnce}}, server(0), heap(key), direct, "at_least_once", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Table = "t"
			got, err := Choose(c.cfg, c.server, c.target)
			said := got.Reason
			if err != nil {
				said, got = err.Error(), Choice{}
			}
			if got.Strategy != c.want || stream.CodeOf(err) != c.code || !strings.Contains(said, c.says) {
				t.Errorf("got %q, %v, code %q: %s", got.Strategy, err, stream.CodeOf(err), said)
			}
		})
	}
}
