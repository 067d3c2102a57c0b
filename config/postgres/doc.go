// Package postgres brings the component type postgres to the pipeline file: the
// connection and the sink. It stands apart from package config so that that one links
// no client; a program that wants PostgreSQL calls [Register].
//
// It only translates: keys of the file into the configurations of internal/pgconn and of
// the sinks, and their problems back to keys. What all ways of delivery share, table,
// mode, key and columns, is in sink.go and columns.go; each way has a file of its own:
//
//	two_phase, at_least_once   twophase.go
//	wal                        wal.go
//	idempotent                 idempotent.go
package postgres
