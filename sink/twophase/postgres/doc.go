// Package postgres writes rows to PostgreSQL tables in two phases, so that every record
// affects them exactly once. Package sqltxn holds what it shares with other SQL sinks: the
// books, the encoding of rows, and how they are written.
//
// # Two strategies
//
// Both keep the rows of an epoch, in memory and beyond that on disk, and touch the server
// only when the barrier has come:
//
//	prepared   Finish(n)  {fence, marker, rows} PREPARE TRANSACTION gid
//	           Commit(n)  COMMIT PREPARED gid
//	staged     Finish(n)  {fence, rows into the staging table} COMMIT
//	           Commit(n)  {fence, marker, rows moved from there into the target} COMMIT
//
// A prepared transaction holds its locks until it is finished, by whomever, and nobody
// notices a deadlock with it, because it has no process. So
//
//   - rows of one key go through one subtask (the planner distributes by key);
//   - a subtask prepares an epoch only when the last one is committed, unless no two rows
//     of the table can meet: append only, no unique index, no trigger;
//   - every wait for a lock is bounded (lock_timeout).
//
// Staging writes every row twice and holds no lock between the phases. It needs no setting
// of the server, and works through poolers as well. [StrategyAuto] prepares where rows
// cannot meet and the server is set up for it, and stages everywhere else; [Choose] says
// which and why.
//
// # An aborted checkpoint (I7)
//
// What is staged stays, and the next checkpoint lists it. So do prepared transactions where
// epochs may overlap. Where they may not, the transaction of n is rolled back, and its rows,
// which are kept until n is published, are prepared together with those of n+1, which then
// says that it replaces n.
//
//	sealed -> prepared(n) -> published -> resolved
//	              \ Aborted(n): rolled back; its rows go before those of n+1
//
// # Who knows what
//
//	55000 at COMMIT PREPARED   somebody is at it right now: ask again
//	42704 at COMMIT PREPARED   committed, or rolled back: only the marker tells (I10)
//	PREPARE answers ROLLBACK   the transaction had failed: nothing is prepared
//	no answer                  look for the gid, for the marker, for the staged epoch
//
// The list of prepared transactions is read before the marker, by a statement of its own: a
// transaction leaves the list only when its marker can be seen, so that one of the two is
// there for whoever asks in this order.
//
// # Recovery
//
// V4 probes each committable in that order. V5 commits. V6 rolls back what the given lower
// attempts have prepared, parsed exactly, takes the fence over, which waits for all who
// have read it, and drops what those attempts staged and no checkpoint lists. After that no
// transaction of a lower attempt can begin, be prepared, or commit, and nothing is left to
// sweep.
//
// A session of a stopped process is ended by its application name, when it holds the marker
// or rows that V5 needs, or the fence that V6 needs. Prepared transactions of lower attempts
// are in nobody's way before V6: COMMIT PREPARED waits for no lock, and an attempt that
// prepares has resolved whatever an earlier one had staged.
package postgres
