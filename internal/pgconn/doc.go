// Package pgconn is the one place that turns a job's description of a PostgreSQL
// server into connections, and a server's answers into errors an operator can act on.
//
// # Connections
//
// [Config] is what the pipeline file says: a DSN as libpq takes it, or nothing, which
// means the PG* environment; the password apart from it, so that the DSN may be shown.
// Off this machine TLS is verified in full unless the DSN, the environment or the
// service file says otherwise: libpq's own default would send the password to whoever
// answers. Only a server that can be written to is taken; of several hosts the first.
//
// A [Pool] holds no session state, because behind a transaction pooler every
// transaction may meet another session: nothing is prepared by name, no SET outlives
// its transaction, no temporary table, no session lock, no LISTEN. So one way of
// working serves direct connections and poolers alike.
//
// # Transactions
//
// pgx's own transactions are not used. PREPARE TRANSACTION ends a transaction behind
// their back, and pgx.Tx.Commit then returns nil although nothing was committed. [Conn]
// has plain verbs instead, and each checks the command tag: PREPARE TRANSACTION in a
// transaction that has failed is answered by ROLLBACK and without an error.
//
// # Errors
//
// [Explain] gives an error its class by SQLSTATE: the text may be in any language. What
// a code means depends on the statement: 55000 is "prepared transactions are disabled"
// for PREPARE, and "somebody is finishing this one right now" for COMMIT PREPARED. An
// error that is no answer of the server leaves open whether the statement was carried
// out; [Answered] tells the two apart.
package pgconn
