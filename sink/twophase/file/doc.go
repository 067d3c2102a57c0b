// Package file writes rows to part files in two phases, so that every row appears in
// exactly one file that readers see.
//
// # One epoch, one directory
//
// The rows between two barriers go to part files in a hidden directory of their own,
// made with the first row: an epoch without rows leaves nothing behind. At commit the
// files are renamed to where readers look.
//
//	<path>/.etl/<job>/<sink>/<lineage>/open-3-0-17/       being written by attempt 3, subtask 0
//	<path>/.etl/<job>/<sink>/<lineage>/3-0-17/            prepared for checkpoint 3.17
//	<path>/.etl/<job>/<sink>/<lineage>/3-0-17/intent      committed, from here on
//	<path>/day=2026-11-29/shop.orders.9f31c2aa-00003-0000-00000017-0001.jsonl
//
// The number of an open directory counts epochs; Finish knows the checkpoint and renames
// it. Names carry lineage, attempt, subtask and checkpoint and are parsed exactly: a name
// that would not have been written so is nobody's (I12).
//
// # Commit
//
//	Finish(n): write footers, fsync each file, fsync the directory, rename it, fsync
//	Commit(n): intent synced -> rename each file without replacing, fsync directories
//
// The intent is the one decision and the marker of its lane: it is made durable before
// the first file moves. A file of an intent that is no longer pending has been moved by
// somebody, even if a consumer has taken it away since: it is never made again. No
// intent and a pending file missing is Lost. The intent lies in the directory it is
// about, and a fence takes that directory's name away before it removes anything: so a
// process that was stopped in front of its intent cannot commit what was fenced, and a
// fence finds an intent that was quicker and leaves it alone.
//
// What a process leaves that goes on after it was fenced (an open directory) holds nobody
// back and is seen by nobody: the fence of the next start removes it, there is no sweep
// in between.
//
// A commit of several files is not atomic to readers, as no rename is: they see them one
// after the other. A process that dies in between leaves an intent, and its successor
// moves the rest before anything else happens.
//
// # Confinement
//
// All names are relative to an os.Root: neither a value in a partition's name nor a
// symbolic link leads out of the sink's path. Other file systems than the system's
// (tests) are confined by checking the names.
//
// # Durability
//
// After a failed fsync nothing is known about a file, and a second one proves nothing
// (I16): the attempt ends, and what it had prepared is written again. A directory whose
// fsync failed after the intent ends the process, for a commit cannot be taken back.
//
// # Rows
//
// A row that cannot be written (a value that does not fit its column, a partition whose
// name would be too long, a document that is no JSON) is rejected in Write, before any of
// it reaches a file.
package file
