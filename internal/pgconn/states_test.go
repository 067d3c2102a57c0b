package pgconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	wire "github.com/jackc/pgx/v5/pgconn"

	"etl/stream"
)

const insert Op = "insert"

// answers are what the states mean to a caller.
var answers = []struct {
	op            Op
	states        string
	class, code   string
	fix           string // a part of it; "" for a state that heals by itself, or that the caller resolves
	row, answered bool
}{
	// Prepared transactions.
	{Prepare, "55000", "environment", CodePreparedDisabled, "max_prepared_transactions", false, true},
	{Prepare, "53200", "retry", CodeSlotsExhausted, "pg_prepared_xacts", false, true},
	{Prepare, "0A000", "environment", "postgres.cannot_prepare", "strategy: staged", false, true},
	{Prepare, "42710", "failed", "postgres.prepared_duplicate", "etl txn ls", false, true},
	{Prepare, "23503 23505 23514", "failed", CodeRow, "", true, true}, // deferred constraints speak here
	{Prepare, "40001", "retry", "postgres.serialization", "", false, true},
	{CommitPrepared, "55000", "retry", CodeBusy, "SyncRep", false, true},
	{RollbackPrepared, "55000", "retry", CodeBusy, "SyncRep", false, true},
	{CommitPrepared, "42704", "failed", CodeNoSuchPrepared, "", false, true},
	{RollbackPrepared, "42704", "failed", CodeNoSuchPrepared, "", false, true},
	{CommitPrepared, "42501", "environment", CodePermission, "the role that prepared", false, true},
	{CommitPrepared, "0A000", "environment", "postgres.other_database", "connect to that one", false, true},
	{CommitPrepared, "25006", "retry", CodeReadOnly, "name the primary", false, true},
	{CommitPrepared, "57P01 57P02", "retry", "postgres.shutting_down", "", false, false},
	// The same states mean nothing of the kind elsewhere.
	{insert, "55000 42704 42710 0A000 25001 42601", "failed", "postgres.failed", "", false, true},
	{insert, "53200", "retry", "postgres.resources", "memory", false, true},
	{Begin, "0A000", "retry", CodeReadOnly, "name the primary", false, true}, // READ WRITE on a standby

	// The server, now.
	{insert, "25006", "retry", CodeReadOnly, "name the primary", false, true},
	{insert, "57P01 57P02 57P03", "retry", "postgres.shutting_down", "", false, false},
	{Connect, "57P03", "retry", "postgres.shutting_down", "", false, false}, // it starts, or recovers
	{Connect, "53300", "retry", "postgres.connections", "max_connections", false, true},
	{insert, "53100", "retry", "postgres.resources", "disk", false, true},
	{insert, "53000 53400", "retry", "postgres.resources", "out of something", false, true},
	{insert, "57000", "retry", "postgres.intervention", "", false, true},
	{insert, "57014", "retry", "postgres.cancelled", "statement_timeout", false, true},
	{insert, "25P04", "retry", "postgres.cancelled", "transaction_timeout", false, true},
	{insert, "25P03", "retry", "postgres.idle_timeout", "idle_in_transaction_session_timeout", false, true},
	{insert, "57P05", "retry", "postgres.idle_timeout", "", false, false},
	{insert, "58000 58030", "retry", "postgres.system", "server's log", false, true},
	{insert, "08000 08003 08006 08P01", "retry", CodeUnreachable, "", false, false},
	{insert, "26000 42P05", "retry", "postgres.pooler", "transaction pooling", false, true},
	{insert, "XX000 XX001", "failed", "postgres.internal", "server's log", false, true},

	// Others.
	{insert, "55P03", "retry", CodeLocked, "pg_prepared_xacts", false, true},
	{insert, "40P01", "retry", CodeLocked, "who else writes", false, true},
	{insert, "40001 40002", "retry", "postgres.serialization", "", false, true},
	{insert, "40003", "retry", "postgres.serialization", "", false, false}, // whether it was done is not known

	// What somebody has to set right.
	{Connect, "28000 28P01", "environment", "postgres.authentication", "pg_hba.conf", false, true},
	{Connect, "3D000", "environment", "postgres.database", "create the database", false, true},
	{insert, "57P04", "environment", "postgres.database", "dropped", false, false},
	{insert, "42501", "environment", CodePermission, "etl sink init", false, true},
	{insert, "42P01 42703 3F000", "environment", CodeMissing, "etl sink init", false, true},
	{insert, "42P10", "environment", "postgres.no_unique_key", "unique index", false, true},
	{insert, "42804", "environment", "postgres.type", "start it again", false, true},

	// One row.
	{insert, "22000 22001 22003 22007 22008 22012 22021 22023 22P02 22P03 22P05 22030", "failed", CodeRow, "", true, true},
	{insert, "23000 23001 23502 23503 23505 23514 23P01", "failed", CodeRow, "", true, true},
	{insert, "21000 44000 54000", "failed", CodeRow, "", true, true},
	{insert, "P0001 P0002 P0003 P0004 09000 27000", "failed", CodeRow, "", true, true}, // triggers
	{insert, "54001 54011 54023", "failed", "postgres.failed", "", false, true},
}

// Each answer of a server has a meaning of its own, by SQLSTATE and statement: what the
// caller may do next, whether a row is to blame, and what a person is told to do.
func TestStates(t *testing.T) {
	for _, c := range answers {
		for _, state := range strings.Fields(c.states) {
			answer := error(&wire.PgError{Severity: "ERROR", Code: state, Message: "what the server says"})
			got := Explain(fmt.Errorf("wrapped: %w", answer), c.op, "t")
			what := fmt.Sprintf("%s at %s", state, c.op)
			want(t, what, got, c.class+" "+c.code)
			var e *stream.Error
			if !errors.As(got, &e) || !strings.Contains(e.Fix, c.fix) || c.fix == "" && c.code == CodeRow && e.Fix != "" {
				t.Errorf("%s: the fix is %q, want %q", what, e.Fix, c.fix)
			}
			if blames := Row(answer) != nil; blames != c.row {
				t.Errorf("%s: blames a row: %v", what, blames)
			}
			if Answered(got) != c.answered || State(got) != state {
				t.Errorf("%s: answered %v, state %s", what, Answered(got), State(got))
			}
			if c.row && strings.Contains(got.Error(), "what the server says") {
				t.Errorf("%s: the server's words may hold a value of the row: %v", what, got)
			}
		}
	}
}

// An answer that no test has looked at is a guess.
func TestEveryStateIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range answers {
		for _, state := range strings.Fields(c.states) {
			switch {
			case byOp[c.op][state] != finding{}:
				tested[string(c.op)+state] = true
			case byState[state] != finding{}:
				tested[state] = true
			default:
				tested[state[:2]] = true
			}
		}
	}
	for op, states := range byOp {
		for state := range states {
			if op != RollbackPrepared && !tested[string(op)+state] { // it shares them with COMMIT PREPARED
				t.Errorf("%s at %s is not tested", state, op)
			}
		}
	}
	for _, all := range []map[string]finding{byState, byClass} {
		for state := range all {
			if !tested[state] {
				t.Errorf("%s is not tested", state)
			}
		}
	}
}

// What is explained already, and the end of a context, come back as they are.
func TestExplainKeepsWhatIsKnown(t *testing.T) {
	known := stream.Errorf(stream.Fenced, "x", "", "", "known")
	for _, err := range []error{nil, known, context.Canceled} {
		if got := Explain(err, Prepare, "t"); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
