// Package redistest gives a test a real Redis server that can be killed, frozen, and
// started again on its data. It is pgtest's sibling and works the same way: [Start],
// [Shared] with [Main], and [Run] for programs.
//
// Where the server comes from, first that works: ETL_TEST_REDIS=redis://... (somebody
// else's, never killed), a container (image ETL_TEST_REDIS_IMAGE, ours or the official
// one), redis-server on the PATH as a child process; root runs it as "redis", or as
// "nobody".
//
// Every write is on disk before it is acknowledged: appendonly yes, appendfsync always.
package redistest
