package pgconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	wire "github.com/jackc/pgx/v5/pgconn"

	"etl/internal/peer"
	"etl/stream"
)

// Op is a statement whose SQLSTATEs have a meaning of their own, or any other.
type Op string

// The statements that Explain tells apart.
const (
	Prepare          Op = "PREPARE TRANSACTION"
	CommitPrepared   Op = "COMMIT PREPARED"
	RollbackPrepared Op = "ROLLBACK PREPARED"
	Connect          Op = "connect"
	Begin            Op = "begin"
)

// The codes that callers branch on.
const (
	CodePreparedDisabled = "postgres.prepared_disabled"  // 55000 at PREPARE
	CodeBusy             = "postgres.prepared_busy"      // 55000 at COMMIT or ROLLBACK PREPARED
	CodeNoSuchPrepared   = "postgres.prepared_missing"   // 42704 there
	CodeSlotsExhausted   = "postgres.prepared_exhausted" // 53200 at PREPARE
	CodeLocked           = "postgres.locked"             // 55P03, 40P01
	CodeReadOnly         = "postgres.read_only"          // 25006, or a standby
	CodeRow              = "postgres.row"                // classes 22 and 23: one row is bad
	CodeMissing          = "postgres.missing"            // 42P01, 42703, 3F000
	CodePermission       = "postgres.permission"         // 42501
	CodeUnreachable      = "postgres.unreachable"
)

// Explain turns an error of a connection, or a server's answer, into a stream.Error:
// what was being done, to what, why it failed, and what to do. An error that is
// explained already, and the end of a context, come back as they are; nil is nil.
//
// Only what cannot get better by itself has class Environment or BadConfig; the rest is
// Retry, or Failed when nothing is known about it.
func Explain(err error, op Op, subject string) error {
	var known *stream.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled):
		return err
	}
	e := &stream.Error{Class: stream.Failed, Code: "postgres.failed", Op: string(op), Subject: subject, Err: worded(err)}
	var pe *wire.PgError
	var stranger *peer.Stranger
	var silence *peer.Silence
	switch {
	case errors.As(err, &stranger):
		*e = finding{stream.Environment, "postgres.wrong_port", "name the port of PostgreSQL in the DSN, usually 5432: this one is of another server"}.of(*e)
	case errors.Is(err, wire.ErrReadOnlyConnection):
		*e = readOnly.of(*e)
	case errors.As(err, &pe):
		*e = meaning(pe, op).of(*e)
		if e.Code == CodeRow {
			e.Err = &RowError{pe}
		}
	case errors.As(err, &silence) && !silence.Cut:
		*e = finding{stream.Retry, CodeUnreachable, "see whether the server hangs, and whether this is the port of PostgreSQL: a web server waits like that, too"}.of(*e)
	case tlsTrouble(e.Err):
		*e = finding{stream.Environment, "postgres.tls", "check tls.ca_file and tls.server_name, and that the server speaks TLS; sslmode=disable in the DSN turns it off"}.of(*e)
	case transport(err):
		*e = finding{stream.Retry, CodeUnreachable, "check the server's address, that it runs, and the network between"}.of(*e)
	}
	return e
}

// finding is what an SQLSTATE means to a caller.
type finding struct {
	class stream.Class
	code  string
	fix   string
}

func (f finding) of(e stream.Error) stream.Error {
	e.Class, e.Code, e.Fix = f.class, f.code, f.fix
	return e
}

var readOnly = finding{stream.Retry, CodeReadOnly, "this is a standby, or set to read only: name the primary, or all hosts of the cluster, in the DSN"}

// byOp are the states whose meaning depends on the statement.
var byOp = map[Op]map[string]finding{
	Prepare: {
		"55000": {stream.Environment, CodePreparedDisabled, "set max_prepared_transactions in postgresql.conf and restart the server, or use strategy: staged"},
		"53200": {stream.Retry, CodeSlotsExhausted, "raise max_prepared_transactions and restart the server, or finish what others have left prepared (pg_prepared_xacts)"},
		"0A000": {stream.Environment, "postgres.cannot_prepare", "something the transaction did cannot be prepared (a trigger that uses a temporary table or NOTIFY, for example): use strategy: staged"},
		"42710": {stream.Failed, "postgres.prepared_duplicate", "see what it is (etl txn ls), and finish it; the rows are in the source"},
	},
	Begin: {
		"0A000": readOnly, // READ WRITE, "during recovery": a pooler has gone over to a standby
	},
	CommitPrepared:   finishing,
	RollbackPrepared: finishing,
}

var finishing = map[string]finding{
	"55000": {stream.Retry, CodeBusy, "another session is at it: see whether it waits for a synchronous standby (pg_stat_activity, wait_event SyncRep)"},
	"42704": {stream.Failed, CodeNoSuchPrepared, ""},
	"42501": {stream.Environment, CodePermission, "only the role that prepared a transaction, or a superuser, can finish it: connect as that role"},
	"0A000": {stream.Environment, "postgres.other_database", "a prepared transaction is finished from the database it was prepared in: connect to that one"},
}

// byState are states that mean one thing.
var byState = map[string]finding{
	"25006": readOnly,
	"42501": {stream.Environment, CodePermission, "grant the right that is missing to the job's role; etl sink init prints all grants"},
	"42P01": {stream.Environment, CodeMissing, "create it; etl sink init prints what a sink needs"},
	"42703": {stream.Environment, CodeMissing, "create it, or mend columns:; etl sink init prints what a sink needs"},
	"3F000": {stream.Environment, CodeMissing, "create it; etl sink init prints what a sink needs"},
	"42P10": {stream.Environment, "postgres.no_unique_key", "create a unique index on exactly the columns of the key: there was one when the job started"},
	"42804": {stream.Environment, "postgres.type", "a column has another type than when the job started: start it again; for rows that are staged already change it back first"},
	"3D000": {stream.Environment, "postgres.database", "create the database, or mend the DSN"},
	"55P03": {stream.Retry, CodeLocked, "see who holds the lock (pg_locks, pg_prepared_xacts)"},
	"40P01": {stream.Retry, CodeLocked, "see who else writes to the table"},
	"57014": {stream.Retry, "postgres.cancelled", "raise statement_timeout for the job's role"},
	"57P01": {stream.Retry, "postgres.shutting_down", ""},
	"57P02": {stream.Retry, "postgres.shutting_down", ""},
	"57P03": {stream.Retry, "postgres.shutting_down", ""},
	"57P04": {stream.Environment, "postgres.database", "the database was dropped"},
	"57P05": {stream.Retry, "postgres.idle_timeout", ""},
	"25P03": {stream.Retry, "postgres.idle_timeout", "raise idle_in_transaction_session_timeout for the job's role"},
	"25P04": {stream.Retry, "postgres.cancelled", "raise transaction_timeout for the job's role"},
	"26000": {stream.Retry, "postgres.pooler", "a pooler between mixes sessions in a way this program does not expect: use transaction pooling"},
	"42P05": {stream.Retry, "postgres.pooler", "a pooler between mixes sessions in a way this program does not expect: use transaction pooling"},
	"09000": {stream.Failed, CodeRow, ""}, // a trigger failed over the row
	"27000": {stream.Failed, CodeRow, ""}, // a trigger changed the row meanwhile
	"21000": {stream.Failed, CodeRow, ""},
	"44000": {stream.Failed, CodeRow, ""}, // check option of a view
	"54000": {stream.Failed, CodeRow, ""}, // too large for an index
	"53100": {stream.Retry, "postgres.resources", "make room on the server's disk"},
	"53200": {stream.Retry, "postgres.resources", "give the server more memory, or max_locks_per_transaction if its log says so"},
	"53300": {stream.Retry, "postgres.connections", "raise max_connections of the server, or lower max_connections of the job"},
}

// byClass are what is left, by the first two characters.
var byClass = map[string]finding{
	"08": {stream.Retry, CodeUnreachable, ""},
	"22": {stream.Failed, CodeRow, ""},
	"23": {stream.Failed, CodeRow, ""},
	"28": {stream.Environment, "postgres.authentication", "check user and password, and pg_hba.conf of the server"},
	"53": {stream.Retry, "postgres.resources", "the server is out of something; its message says of what"},
	"40": {stream.Retry, "postgres.serialization", ""},
	"57": {stream.Retry, "postgres.intervention", ""},
	"58": {stream.Retry, "postgres.system", "look into the server's log"},
	"P0": {stream.Failed, CodeRow, ""}, // a trigger refused the row
	"XX": {stream.Failed, "postgres.internal", "look into the server's log"},
}

func meaning(pe *wire.PgError, op Op) finding {
	if f, ok := byOp[op][pe.Code]; ok {
		return f
	}
	if f, ok := byState[pe.Code]; ok {
		return f
	}
	if f, ok := byClass[pe.Code[:min(2, len(pe.Code))]]; ok {
		return f
	}
	return finding{stream.Failed, "postgres.failed", ""}
}

// Answered reports whether err is an answer of the server, which says that the statement
// was not carried out. Any other error leaves that open.
func Answered(err error) bool {
	var pe *wire.PgError
	return errors.As(err, &pe) && !strings.HasPrefix(pe.Code, "08") && !strings.HasPrefix(pe.Code, "57P") && pe.Code != "40003"
}

// State returns the SQLSTATE of an error, "" when it is no answer of a server.
func State(err error) string {
	var pe *wire.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// Row returns the answer that blames a row, nil when err does not: values out of range
// or too long, violated constraints, triggers that refuse.
func Row(err error) *wire.PgError {
	var pe *wire.PgError
	if errors.As(err, &pe) && meaning(pe, "").code == CodeRow {
		return pe
	}
	return nil
}

// RowError words an answer that blames a row. The server's own text may hold values of
// the row, which must not reach logs.
type RowError struct{ Answer *wire.PgError }

// Unwrap returns the answer.
func (e *RowError) Unwrap() error { return e.Answer }

// Error says what was wrong with which column or constraint.
func (e *RowError) Error() string {
	s := e.Answer.Code
	if name := rowStates[s]; name != "" {
		s = name + " (SQLSTATE " + s + ")"
	}
	for _, part := range [][2]string{{"constraint", e.Answer.ConstraintName}, {"column", e.Answer.ColumnName}, {"table", e.Answer.TableName}} {
		if part[1] != "" {
			s += ", " + part[0] + " " + part[1]
		}
	}
	return s
}

// rowStates are the states a row meets most.
var rowStates = map[string]string{
	"22001": "a text is too long", "22003": "a number is out of range", "22007": "not a date or time", "22008": "a date or time is out of range",
	"22021": "a character that the encoding does not have", "22P02": "a value has the wrong form", "22P03": "a value has the wrong binary form",
	"22P05": "a character that cannot be stored", "23502": "null where a value must be", "23503": "a referenced row is missing",
	"23505": "the key is there already", "23514": "a check constraint is violated", "23P01": "an exclusion constraint is violated",
	"21000": "a key came twice in one statement", "P0001": "a trigger refused it", "54000": "too large for an index",
}

// transport reports whether err is about a connection and not an answer.
func transport(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var sys *os.SyscallError
	var ce *wire.ConnectError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &sys) || errors.As(err, &ce) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, wire.ErrConnClosed) || errors.Is(err, context.DeadlineExceeded) || wire.Timeout(err) || wire.SafeToRetry(err)
}

// tlsTrouble reports whether a handshake failed for its contents.
func tlsTrouble(err error) bool {
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	var header tls.RecordHeaderError
	return errors.As(err, &verify) || errors.As(err, &alert) || errors.As(err, &header) ||
		strings.Contains(err.Error(), noTLS)
}
