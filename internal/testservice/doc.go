// Package testservice runs the real servers that tests talk to: as a plain
// process, as a container, or as something that somebody else runs. It is the
// machinery under internal/kafkatest, internal/pgtest and internal/redistest, which
// know the servers: each is a [Kind], its servers are a [Server] each, and a test has
// them as [Tested].
//
// Duties:
//   - A [Service] can be killed with SIGKILL, frozen, and started again on the
//     same data and the same ports. Kill returns only when the server is down.
//   - Nothing outlives the program that started it, not even if that program is
//     killed: processes carry a death signal, containers a watcher ([watch]).
//   - Ready means that a real client call succeeded ([Await]). An open port means
//     nothing: Docker's proxy accepts before the server listens.
//   - A test that cannot have its server is skipped in one place, loudly ([Skip]),
//     and where the server was promised (ETL_REQUIRE_REAL=1) it fails instead.
//
// Servers run in real time on a real machine, so this package reads the clock
// and waits. No product package may import it.
package testservice
