// Package deadletter reads the dead letters of a job, and replays them: the records
// go back to the topics they were read from, each exactly once.
//
// A replay is a job of its own on the engine: source (the topic of dead letters, as
// far as it can be read now) -> pick (the original records of the letters that were
// asked for) -> a two-phase sink for each cluster. Its name is that of the job, and a
// hash of what was asked for: the same call continues what a killed one began, and,
// when that was finished, takes up the letters that have come since. So no call
// re-inserts a letter twice; two calls that ask for different sets which overlap do.
//
//	<job>-replay-<hash8>-<n>     the n-th such job, finished before n+1 begins
//
// Its checkpoints lie beside those of the job. A job is complete when its storage holds
// the object replay/told, which is written behind everything else, the printing of its
// result too. A call that asks for everything again begins anew only behind a complete
// job: one that was killed at the very end looks finished in its log, and whoever has
// not seen its result repeats the call.
package deadletter
