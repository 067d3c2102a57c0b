package main

import (
	"slices"
	"strconv"

	"etl/config"
	"etl/config/postgres"
	"etl/config/redis"
	"etl/sink/sqltxn"
	"etl/verify"
)

// recountTable words a table: all of its rows when they are appended, else the last one of
// each key.
func recountTable(c *config.Component, spec *postgres.Sink) verify.Sink {
	conn := config.Connected[postgres.Connection](c, "connection", spec.Connection)
	schema, name, _ := sqltxn.SplitTable(spec.Table) // the loader has checked it
	table := verify.PostgresTable{Conn: conn.Conn(), Schema: schema, Table: name}
	if spec.Mode == string(sqltxn.Append) {
		return verify.Sink{Name: c.Name, Inputs: c.Inputs(), Append: &verify.AppendSink{Postgres: table, Columns: recountFields(spec.Columns)},
			AtLeastOnce: spec.Delivery == "at_least_once", OnError: onError(c), Parallelism: c.Parallelism}
	}
	l := &verify.LastSink{Postgres: &table}
	for _, f := range recountFields(spec.Columns) {
		if !slices.Contains(spec.Key, f.Name) {
			l.Fields = append(l.Fields, f)
		}
	}
	for _, k := range spec.Key {
		for _, f := range recountFields(spec.Columns) {
			if f.Name == k {
				l.Key = append(l.Key, f)
			}
		}
	}
	return verify.Sink{Name: c.Name, Inputs: c.Inputs(), Last: l, OnError: onError(c), Parallelism: c.Parallelism}
}

// recountRedis words keys of Redis.
func recountRedis(c *config.Component, spec *redis.Sink) verify.Sink {
	conn := config.Connected[redis.Connection](c, "connection", spec.Connection)
	l := &verify.LastSink{Redis: &verify.RedisKeys{Address: conn.Address, Username: conn.Username, Password: conn.Password.Reveal(), Database: conn.Database,
		Prefix: spec.Prefix, Hash: spec.Kind == "hash"}, Fields: recountFields(spec.Fields)}
	for i, k := range spec.Key {
		l.Key = append(l.Key, verify.Field{Name: "key" + strconv.Itoa(i), Value: string(k)})
	}
	if spec.Value != "" {
		l.Fields = []verify.Field{{Name: "value", Value: string(spec.Value)}}
	}
	return verify.Sink{Name: c.Name, Inputs: c.Inputs(), Last: l, OnError: onError(c), Parallelism: c.Parallelism}
}
