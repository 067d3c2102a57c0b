// Package stream holds the nouns that every other room speaks: records and the
// batches they travel in, the elements of a stream (batch, barrier, watermark,
// idle, end of input), identities (job, lineage, attempt, checkpoint id,
// operator UID), key groups, schemas, typed errors, and the world a task runs
// in (clock, randomness, dialer, file system).
//
// It imports nothing but the standard library, so that any package may import
// it, and it holds no behaviour that could be done in two ways.
//
// # Glossary
//
// Each word has one meaning here and in every other package.
//
//   - checkpoint: a job-wide consistent set of snapshots; snapshot: the part of
//     one subtask; savepoint: a canonical export of a completed and confirmed
//     checkpoint, owned by a person.
//   - barrier: the element that cuts a stream into "before checkpoint n" and
//     after; alignment: waiting until barrier n has come on every input;
//     in-flight data: elements a barrier overtook.
//   - acknowledge, decline: the answers of a subtask to a barrier. complete,
//     abort: the two ends of a checkpoint. subsume: a later complete checkpoint
//     makes an earlier one unnecessary.
//   - operator UID: the stable name of a component, under which its state is
//     stored; subtask: one parallel instance of it, counted from 0.
//   - key group: the unit in which keyed state moves between subtasks.
//   - split: a topic partition as a source reads it. NextOffset: the next offset
//     to read, never "the offset".
//   - committable: plain data with which any process can finish a prepared
//     transaction; committer: what does so; marker: the proof of a commit,
//     written inside the same external transaction.
//   - attempt: one start of a job, strictly increasing; lineage: the identity a
//     job gets at its very first start.
//   - in doubt: prepared, fate unknown. lost: proven neither committed nor
//     committable. confirmed: committed, verified and durably noted.
//   - "commit" is always qualified: publish a checkpoint, commit a transaction,
//     report offsets to the consumer group.
//
// # Ownership of memory
//
// A [Batch] is counted. Who emits a batch gives up its reference; who wants to
// keep one past the call retains it. All byte slices of the records of a batch
// are valid until its last release and must not be changed by anyone but the
// operator that made them. Nothing on the two sides of an exchange shares
// pointers: an exchange copies bytes.
package stream
