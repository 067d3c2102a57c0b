// Package sqltxn is what every sink that writes to a SQL database shares: the marker
// and the fence, the staging table, the names of prepared transactions, the encoding of
// rows, and the writing, merging and sorting out of rows in bulk.
//
// # The tables (docs/formats/postgres.md)
//
//	marker   one row per committed epoch: job, sink, lineage, subtask, checkpoint. It is
//	         inserted in the transaction of the rows it speaks for, so it is there if
//	         and only if they are (I10). Rows are never updated: an update would make
//	         epoch n+1 wait for the prepared n.
//	fence    one row per job, sink and lineage: the newest attempt that took the sink
//	         over. Every transaction reads it FOR SHARE; taking over is an UPDATE, which
//	         waits for all who read it, prepared transactions included. After it no
//	         transaction of a lower attempt can begin, be prepared or commit (I12).
//	staged   one row per staged epoch, with its number of rows
//	stage_*  the staged rows of one sink, in the columns of its target
//	reject   rows found bad after their checkpoint was published
//
// What looks for bad rows, and commits nothing, reads the fence as well: its locks would
// outlive the takeover otherwise.
//
// All of them are logged tables: an unlogged one is emptied by a crash of the server.
//
// # One application of an epoch
//
// Whatever way the rows come, they and the marker become visible in one transaction:
//
//	prepared   {fence = mine, marker, rows} PREPARE ... COMMIT PREPARED
//	staged     {fence = mine, staged, rows into stage_*} COMMIT
//	           ... {fence <= mine, marker, staged row and its rows removed, merge} COMMIT
//
// The marker's primary key serialises two who apply the same epoch: the second waits for
// the first and then finds it applied. "fence <= mine" lets a recovery finish what its
// predecessor staged before it takes over (V5 comes before V6).
//
// # Rows
//
// A record is encoded once, when it is written, into the binary form of COPY, checked
// against the type of each column of the target: numbers exactly, text without NUL,
// labels of enums. [Rows] keeps an epoch: reduced to the last row per key as they come,
// spilled to disk beyond a bound of memory, until its checkpoint is published. COPY
// appends them; INSERT ... SELECT FROM unnest(...) ON CONFLICT upserts them, some
// thousand rows a statement. A transaction that touched a temporary table cannot be
// prepared, so there is none.
//
// # Bad rows
//
// A row that only the server can refuse fails the transaction of its epoch. The epoch is
// then halved in savepoints of another transaction, which is rolled back, until the rows
// to blame are known; what is left is written again from the beginning. Rows found bad
// before their checkpoint is published are rejected at the next barrier; rows found bad
// afterwards go to the reject table in the marker's transaction.
package sqltxn
