// Package deadletter reads the dead letters of a job, and replays them: the records
// go back to the topics they were read from, each exactly once.
//
// [Letters] is the one way to them, whatever stores them: a topic of records ([Kafka]), a
// table ([Table]), part files of JSON lines ([Files]). All of them give committed letters
// only, one by one, in an order that stays.
//
// A replay is a job of its own on the engine: source (the dead letters, as far as they
// can be read now) -> pick (the original records of the letters that were
// asked for) -> a two-phase sink for each cluster. Its name is that of the job, and a
// hash of what was asked for: the same call continues what a killed one began, and,
// when that was finished, takes up the letters that have come since. So no call
// re-inserts a letter twice; two calls that ask for different sets which overlap do.
//
//	<job>-replay-<hash8>-<n>     the n-th such job, finished before n+1 begins
//
// What was put back is known by the positions in its checkpoints. In a topic these are
// offsets, and job n+1 begins where job n ended. Tables and files have no such order: rows
// appear anywhere, files before others that are there. So each of their letters has an
// [ID], and a job begins with a list of the IDs that are there and in no list of the jobs
// before it (list.go); its positions count the entries of the list, and its reader goes
// through the store in the order of the list (listed.go):
//
//	the list is written, once, before checkpoint 0  -> a killed job continues the same list
//	a letter is in one list of 1..n                 -> no job puts it back again
//	one that comes later is in no list yet          -> the next job has it
//	one that is deleted is passed over              -> nothing waits for it
//
// Its checkpoints lie beside those of the job. A job is complete when its storage holds
// the object replay/told, which is written behind everything else, the printing of its
// result too. A call that asks for everything again begins anew only behind a complete
// job: one that was killed at the very end looks finished in its log, and whoever has
// not seen its result repeats the call.
package deadletter
