// Package kafka reads Kafka topics as a source of a job.
//
// # Positions
//
// A position is the NextOffset of a split: the next offset to read, past control
// markers, aborted records and holes. It comes from a checkpoint and from nowhere
// else (I14): there is no consumer group behind it, no automatic commit, and no
// reset policy. Offsets are reported to a consumer group, when one is named, so
// that lag tools have something to look at; nothing ever reads them back.
//
// The Enumerator fixes, at a job's first start, where every partition begins and
// ends; checkpoint 0 holds the answer before anything is read. At a later start it
// compares the restored positions with the log before anything is fetched: a
// position outside the log, a log that was truncated below it (KIP-320), another
// topic under the same name (KIP-516), fewer partitions than before stop the job
// with the facts. Partitions that are added later are read from their beginning,
// whatever start says: what was written before they were found counts too. A
// partition that the brokers do not mention at the moment is waited for and never
// dropped.
//
// # Reading
//
// Each subtask has a client of its own that fetches its partitions directly.
// Fetched records stay where they are: a batch of the engine points into them, and
// they are recycled at its last release (see internal/kafkaconn). One batch holds
// records of one partition.
//
// Control markers are asked for, skipped, and counted as read, so that the position
// after a transaction is the one after its marker. What no client can show, since
// only empty batches remain where compaction took the records, is looked up with
// a raw fetch when a partition makes no progress: otherwise a bounded read would
// wait for a record that does not come, and lag would never be zero.
//
//	Poll --> records wait from an earlier fetch? --> batch, position moves
//	     --> all splits at their end?            --> EndOfInput, once
//	     --> ask the client, until Wake          --> errors first, then records
//
// # What is assumed of the client
//
// franz-go resets by itself in two cases even without a reset policy; both are
// caught: a data loss it has noticed (ErrDataLoss) ends the attempt before any
// record of the same answer is used, and a record at or before the position of its
// partition ends it too.
package kafka
