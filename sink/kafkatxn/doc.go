// Package kafkatxn is what every sink that writes to Kafka in transactions shares:
// names, the committable, the marker, and the raw calls that finish, verify, heal,
// fence and clean transactions from any process.
//
// # The prepared transaction
//
// A Kafka transaction that is flushed and not ended survives its producer: whoever
// knows (transactional id, producer id, epoch) can end it. That triple, with the
// transaction version it was written under, is the committable [Payload]. Nothing of
// KIP-939 is needed.
//
//	write rows | flush, count promises | marker | publish checkpoint | EndTxn | verify | heal
//	           a crash here: aborted             a crash here: another process commits
//
// # The marker (I10)
//
// Every answer but OK is ambiguous: PRODUCER_FENCED, INVALID_TXN_STATE and the like
// come for a committed transaction as well as for an aborted one, and they moved
// between releases. So each transaction also commits an offset, equal to the
// checkpoint id, to a group of its own lane and lineage ([Names.Group]). The group
// shows it if and only if the transaction was committed. It is read by a plain
// OffsetFetch that names the partition: RequireStable would wait for any open
// transaction of the lane, and an answer without the partition is an error, never
// "no marker". The order in which markers are written decides, so a lane commits
// strictly in order (I5). Committed offsets expire; after that nothing proves
// anything and the outcome is Undecided.
//
// # Verify and heal
//
// EndTxn = OK does not mean that anybody can see the rows: a coordinator that crashed
// between its decision and its markers can finish without writing any (KAFKA-20734,
// Apache Kafka 4.3.1 and 4.4.0). The committable therefore lists the last acknowledged
// offset of each partition. Last stable offset beyond it, and marker = n, prove
// visibility with ordinary rights. When that does not come, the partitions themselves
// are asked (DescribeProducers): a transaction of somebody else that pins the last
// stable offset is none of our business; ours still open, while the coordinator says
// CompleteCommit, gets the markers it lacks (WriteTxnMarkers, commit). Without the
// right to do so the outcome is NotVisible. All this comes before the id is fenced or
// used again: afterwards the coordinator no longer tells committed from aborted.
//
// # Fence and clean (I12)
//
// For each id that the given earlier attempts can have used, and no other:
//
//	describe                     Prepare*: wait
//	CompleteCommit, ours open    write the COMMIT markers first
//	EndTxn(abort, pid, epoch)    a compare-and-set on transaction version 2, where
//	                             every end raises the epoch; any error: describe again
//	still open on a partition    write the ABORT markers (same bug, other marker)
//	InitProducerID               the seal; repeated on CONCURRENT_TRANSACTIONS
//
// The seal comes last because it destroys the evidence. It is needed because between
// the abort and it a zombie's own InitProducerID would be answered with a good epoch.
// On transaction version 1 an EndTxn does not raise the epoch and fences nobody: only
// the seal does. A transaction is never aborted by WriteTxnMarkers while the
// coordinator still holds it open: its later commit would then succeed without data.
//
// Outside the fence no transaction of ours is ever aborted and its id used on, so of
// all transactions of an id only the last can have been aborted.
package kafkatxn
