// Package postgres delivers the write-ahead log (package wal) to a PostgreSQL table:
//
//	{fence read, marker inserted, rows} COMMIT
//
// one transaction for an epoch, from segments in checkpoint storage. It needs no setting
// of the server, no staging table and no prepared transactions, and writes every row to
// the server once; rows travel through checkpoint storage instead.
//
// The marker's primary key serialises two who deliver the same epoch: the second waits for
// the first, finds the marker, and does nothing. "fence <= mine" lets a recovery deliver
// what its predecessor logged before it takes over (V5 comes before V6), and ends the session
// of one that was stopped in the middle of the same delivery; after that no transaction of a
// lower attempt can commit, because each reads the fence first and holds it to its end.
//
// Rows are encoded when they are written, checked against the types of the columns, so a
// record that does not fit is rejected at once. What only the server can refuse (a unique
// index, a check) is found after the permit: on_error fail stops the job with the rows in
// the log, skip and dead_letter put them into the reject table in the marker's
// transaction.
package postgres
