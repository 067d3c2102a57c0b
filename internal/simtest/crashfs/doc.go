// Package crashfs is an in-memory stream.FS that can lose power.
//
// It keeps what programs see apart from what a disk would hold. A file's
// contents become durable by Sync of the file, a name by SyncDir of its
// directory, and nothing else makes anything durable: a synced file whose
// directory was not synced is gone after a crash, a synced name of a file that was
// not synced is there and empty. That is the least POSIX promises, and less than
// most file systems keep.
//
//	fs := crashfs.New()
//	... run a program on fs ...
//	after := fs.Crash(nil)                       // everything unsynced is lost
//	after  = fs.Crash(rand.New(rand.NewPCG(1, seed))) // each unsynced change is kept or lost, by chance
//
// Crash leaves the original as it is, so that one run can be cut at many moments,
// and so that the process that "lost power" may go on writing to it as a zombie.
//
// OnOp sees every operation before it happens and may fail it; a failed Sync
// loses what it should have made durable for good, as Linux does (a later Sync
// succeeds without having written it).
package crashfs
