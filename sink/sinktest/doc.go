// Package sinktest is the conformance suite of sinks. Every sink passes it, those
// written outside this repository too:
//
//	func TestSink(t *testing.T) {
//		sinktest.Run(t, sinktest.Suite{New: func(t testing.TB) *sinktest.Harness { ... }})
//	}
//
// A [Harness] is one outside system, empty, with the sink in front of it. Two functions
// are needed: Connect, which plugs the sink into a process, and Read, which returns what
// readers see. What else a harness can do (list what is open, make bad rows, let time
// pass, kill the outside) opens further tests.
//
// # What the suite does
//
// It is a source of numbered rows and the part of the engine that a sink sees, in the
// order of the engine: the contested log over a store in memory, permits from a real
// checkpoint.Attempt, commits in the lanes of a real sink.Ledger, recovery through
// sink.Decide, fencing after it. Which rules apply is read off sink.Features:
//
//	Transactional   nothing is seen before its checkpoint is published
//	Marker          the newest commit of each lane can be read, by anybody
//	OneInFlight     the next epoch is finished only after the last one is committed
//	Ordered         rows of a key are seen in the order they were written
//	Upsert          the last row of a key counts; otherwise each row counts, once
//	Guarded         a replay shows no older row of a key after a newer one
//	NeedsKey        a row without a key is rejected
//	Repeats         what the outside has cannot be asked, so a commit may be made twice
//	Timeout         what is prepared has a deadline, and is lost after it
//
// A connector without committer is held to what is left: rows are there when Finish has
// returned, a restart writes the rows after the restored checkpoint again, and in the
// end each key shows its last row.
//
// # How a process dies
//
// Each process has a network and a file system of its own ([Process.World]). The suite
// counts what passes: requests, replies, operations on files, fault points. At any of
// them it can end the process, so that whatever its code goes on to do has no effect; or
// lose a request or a reply. A sink whose outside is none of that wraps its calls in
// [Process.Do].
//
// # Rules
//
// Each test is one rule, and the tests' names are the rules. The last one, the model,
// plays random histories of everything at once; its failures shrink to short ones.
//
// A suite that cannot fail proves nothing: the package's own tests run it against small
// sinks in memory of every kind, with one rule broken at a time, and it must notice each.
package sinktest
