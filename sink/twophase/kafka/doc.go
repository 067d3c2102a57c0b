// Package kafka writes rows to Kafka topics in two phases, so that every row becomes
// visible to read_committed readers exactly once.
//
// # One epoch, one transaction
//
// The rows between two barriers go into one transaction of their own transactional id
// (a slot), begun at the first row: an epoch without rows leaves nothing behind. At the
// barrier the epoch is sealed; the next one goes on at once in another slot.
//
//	task goroutine   Write Write | PrepareCommit(n) | Write ...      never waits for acks
//	background                    \ Finish(n): send what is held, flush, count promises,
//	                                marker, committable
//	ledger's lanes                                     Commit(n) ... Resolved(n)
//
// After Finish a crash loses nothing: the committable lets any process commit
// (package kafkatxn). Closing a producer never ends its transaction.
//
// # Evidence
//
// A flush that returned nil proves nothing: kgo may report records that were refused
// after it. Every promise is counted, and every acknowledgement must carry the very
// producer id and epoch the transaction was begun with, for kgo can initialise its id
// again in the middle of a transaction, which aborts what was written before. Anything
// else than "as many good acknowledgements as rows" ends the attempt (I8).
//
// # Order (I15)
//
// Transactions of two epochs are written by two producers, so a row of epoch n+1 could
// overtake a retried row of n on the same partition. Rows of n+1 are therefore held
// back until all of n are acknowledged. The barrier does not wait for that: what is
// still held when n+1 is sealed is sent by Finish(n+1). Write waits when more is held
// than Config.HoldBytes.
//
// # Slots
//
//	free -> open -> prepared(n) -> verified(n) -> free
//	                  Resolved(n)    Resolved(n, retired)
//
// A verified slot cools until no complete checkpoint lists n any more: a recovery then
// finds its transactions as they were and its commits are plain repetitions. Only when
// all of 2 x (max_concurrent + tolerable_failures) + 2 slots are taken is the oldest
// verified one used again, and the marker answers for it. Write waits only when every
// slot is prepared and unresolved.
//
// Each transaction gets a fresh producer, initialised in the background before the
// barrier needs it: on transaction version 1 nothing else keeps a repeated commit from
// committing the next transaction of the same producer. With checkpoints less than a
// second apart on version 2 producers are kept, and resynchronised after their commit
// was verified.
//
// # Rows
//
// A record that nobody changed since it was fetched is produced as the same
// *kgo.Record. Others are built in pooled slabs whose memory goes back with the last
// acknowledgement. Nothing is allocated per record. Null and empty stay different,
// headers keep order and duplicates, timestamps stay, -1 included.
package kafka
