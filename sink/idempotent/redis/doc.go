// Package redis writes the value of each key into Redis, behind the guard of package
// idempotent: as a hash, a string, or a whole number (set, not incremented, so that a
// repetition changes nothing).
//
// # One script
//
// Rows go out in calls of a server-side script, some dozens of rows a call and all calls of
// a batch in one pipeline. The script compares versions and writes the row and its version
// in one step, so that no other client ever sees one without the other:
//
//	user:7               the value
//	user:7:etl_version   "<version> <scope>", for whoever writes it next
//
// A deleted key keeps its version for [Config.Tombstones], so that a replay does not bring
// it back.
//
// # What Redis forgets
//
// An acknowledged write may be gone after a crash of the server (appendfsync everysec), or
// after a failover. Two things make that loud. Every subtask writes, behind the rows of a
// checkpoint, the checkpoint's id into a key of its own; as the server logs and replicates
// writes in order, who finds the id finds the rows before it. A restart that does not find
// it ends with redis.forgotten and names the checkpoints that are safe to go back to. And a
// connection to another run of the server is refused and ends the attempt, whose rows may be
// gone; the restart then looks, and finds nothing that the attempt wrote there.
//
// A server that may evict keys (maxmemory-policy allkeys-*) is refused.
package redis
