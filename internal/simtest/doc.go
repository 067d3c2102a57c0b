// Package simtest runs the whole engine in virtual time, from seeds, and lets it
// die.
//
// A seed is one job from its first start to its last: Kafka source, chained
// operators, keyed exchange, counts, two-phase Kafka sink, checkpoints in files.
// Everything is the real code; what is simulated is the world it lives in. The
// brokers are kfake on an in-memory network whose requests and answers are
// delayed, refused, cut and lost; the disks are in memory and lose what was not
// synced when the power goes; the clock is that of a testing/synctest bubble, so
// that a week of downtime takes as long as the timers in it.
//
// A process of the simulation is a World of its own. Killing it cuts its network
// and its disks at one instant: whatever its goroutines still do has no effect
// outside. The next process finds what the disks hold.
//
// At the end programs that share nothing with the engine look at what is there:
// every record of the input affected the output exactly once, in order, and
// nothing was ever visible that is not in the end; no transaction is left; the log
// has one owner at a time; every retained checkpoint restores to the state that
// the input up to its offsets gives. When the job refuses to go on because
// something is lost or can no longer be known, that must be true.
//
//	go test ./internal/simtest -run Simulation -v              all seeds, coverage at the end
//	go test -tags synctests ./internal/simtest -run Seeds -seed 17 -talk
//
// docs/simulation.md says what is drawn, what is checked and what is not proven.
package simtest
