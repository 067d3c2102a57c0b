// Package postgres upserts rows by key into a PostgreSQL table, each batch in a transaction
// of its own, behind the guard of package idempotent:
//
//	INSERT INTO t (..., etl_version, etl_scope) SELECT * FROM unnest($1, $2, ...)
//	ON CONFLICT (key) DO UPDATE SET ...
//	WHERE t.etl_scope IS DISTINCT FROM EXCLUDED.etl_scope OR t.etl_version <= EXCLUDED.etl_version
//
// The table has two columns for the guard, a bigint and a text; [Config.DDL] adds them. A
// row that is refused for being old is no error. What is committed reaches the disk,
// whatever the role's synchronous_commit is (package pgconn), so the server forgets
// nothing, and there are no tables to keep books in.
//
// A row that the server refuses for its values fails the transaction of its batch. The
// batch is then halved in another transaction, which is rolled back, until the rows to
// blame are known, and written without them (package sqltxn).
//
// A delete leaves no version behind, so that a replay would bring back what it deleted:
// mode upsert_delete needs the guard none, and says so.
package postgres
