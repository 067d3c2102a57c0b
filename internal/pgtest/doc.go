// Package pgtest gives a test a real PostgreSQL server that can be killed,
// frozen, and started again on its data. It is kafkatest's sibling and works the
// same way: [Start], [Shared] with [Main], and [Run] for programs.
//
// Where the server comes from, first that works: ETL_TEST_POSTGRES=postgres://...
// (somebody else's, never killed), a container (image ETL_TEST_POSTGRES_IMAGE,
// ours or the official one), the server below /usr/lib/postgresql or on the PATH
// as a child process; it refuses to be root, so root runs it as "postgres".
//
// Prepared transactions are on: max_prepared_transactions=64.
package pgtest
