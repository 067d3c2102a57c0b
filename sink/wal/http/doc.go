// Package http delivers the write-ahead log (package wal) to an HTTP endpoint, in batches
// of JSON.
//
// An endpoint cannot be asked what it has taken, so delivery is at least once: a request
// whose answer was lost is made again, and so is an epoch whose delivery died before it
// was confirmed. Every repetition of a request, in this process or another, has the same
// body and the same Idempotency-Key, which is made of
//
//	job / sink / lineage / checkpoint / subtask / number of the request in its epoch
//
// so an endpoint that remembers keys takes each row once. How rows are cut into requests
// is part of the committable, not of the pipeline file.
//
// Requests of a lane go one after the other, in the order of the rows, across retries and
// restarts. What an answer means:
//
//	2xx                               taken
//	408 409 425 429, 5xx, no answer   tried again, after Retry-After or a growing pause
//	401 403 404 405 406 407 410 415   nothing of the rows' fault: the job stops (exit 3),
//	and 3xx                           the rows stay in the log
//	any other 4xx                     a row of the request is refused: the request is
//	                                  halved until the row is known; it goes aside
//
// A restart does not wait for an endpoint that is away: what is in the log is handed to
// the lanes, and the job reads on until the log is full.
package http
