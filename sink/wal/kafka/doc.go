// Package kafka delivers the write-ahead log (package wal) to Kafka topics: one short
// transaction for an epoch, with the rows and the marker, under one stable transactional
// id per lane (kafkatxn.Short).
//
// Between a checkpoint and its delivery nothing is open at the brokers, so they may be away
// for longer than any transaction lives: what the two-phase sink would have to call lost
// waits here in checkpoint storage. What it costs is that every row is written to that
// storage, and that rows become visible only after they have been read from there.
//
// What bounds an outage is the marker: brokers forget it when a lane delivers nothing for
// offsets.retention.minutes (7 days by default). An epoch that was logged longer ago, and
// for whose lane no marker is found, may have been delivered or not; that is said, and
// nothing goes on by itself.
package kafka
