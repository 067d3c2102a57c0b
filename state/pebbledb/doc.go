// Package pebbledb is the state backend for state larger than memory: the keyed
// cache of package keyed with a Pebble database below it. It is the only package
// that knows Pebble.
//
// # One database, fed rarely
//
// A process has at most one base, and none as long as everything fits into the
// cache: checkpoints are segments, and long chains are replaced by full ones. An
// entry costs Pebble 3 to 5 microseconds of processor time, compaction included,
// and a segment a fiftieth of that. So the base gets entries only when the cache
// needs room, or when the chains of stores that live in it have grown long, and
// then merged over all epochs since the last time.
//
//	barrier n        checkpoint n complete          chains are long
//	   |                     |                             |
//	capture ---> offer ---> apply (keeper) ---> link ---> upload ---> new base
//
// # Rules
//
//   - Only epochs of completed checkpoints reach the base. A capture waits until
//     the checkpoint it was taken for, or a later one, is complete.
//   - The base has a mark for each store: the end, id and object name, of the last
//     segment whose changes it has. It is written in the same batch as the last of
//     them; while they are being written it says so. What is on the disk after a
//     kill or a power cut is everything up to some batch, and the mark in it.
//   - A base that a dead process left in the middle of an apply gets the rest from
//     the restored chain at once. A stored one always stands at one place.
//   - The base has no log: it is flushed when all that could be applied is. With
//     one, a disk that is full or fails ends the process inside Pebble.
//   - A local base is used only if lineage and every mark fit the restored chain
//     (I19); otherwise it is counted, deleted, and the one in storage loaded.
//   - Nothing Pebble opens is believed: all files are verified against size and
//     checksum before, and mark, tables and their numbers of entries after.
//   - File numbers repeat between attempts. Object names carry lineage, attempt
//     and a random part, and a file counts as stored only if its bytes are.
//   - A new base counts for checkpoints that no store has asked a base for, so that
//     all chains of a checkpoint stand on the same.
//   - Where key groups have moved between subtasks, marks mean nothing until all
//     chains begin on a new base, which the first checkpoint waits for.
//   - Hard-link copies lie beside the base, on its file system, and are removed on
//     every path and at the start.
//   - A full disk makes Pebble wait, not fail. Its background errors end the
//     attempt, nothing is written after one, and no call is waited for without end.
//
// # Goroutines
//
// The keeper alone writes to the base. One more uploads a materialization while
// the keeper goes on. Task goroutines read the base, and read and write their
// parts of the scratch. Whoever persists a snapshot offers captures and asks for
// the base of its chain.
package pebbledb
