// Package demo shows the guarantee: records flow through a pipeline, its worker is
// killed at the worst moments, and an independent recount says what is missing and
// what is there twice.
//
// # What runs where
//
//	this process                               child process, killed and restarted
//	  broker in memory (kfake), 3 partitions     etl run FILE
//	  generator -> text.lines           ----->     words -> counts
//	  watcher   <- text.word-counts     <-----     (state and checkpoints in a
//	  recount (package verify)                      temporary folder)
//
// The broker is franz-go's kfake and no Kafka: killed, it would abort open
// transactions, so it lives here and is never killed. The worker is the very program
// a user runs, with the environment variable ETL_FAULT set: it kills itself with
// SIGKILL in the middle of a step of the checkpoint protocol. Which points there are
// is the table in points.go.
//
// # Rules
//
//   - The input is fixed by the seed. How fast it comes depends on the kills: as long
//     as one is due there is input left, so that the worker never idles past it.
//   - The job is bounded: it ends by itself, cleanly, after the last record.
//   - Nothing stays behind: the folder is removed and the worker ended however Run
//     ends. Where the system can, the worker ends when this process is killed.
//   - The verdict comes from package verify, which knows nothing of the engine.
package demo
