// Package transform holds the contract of operators and those that need nothing
// but records, expressions and keyed state: decode, filter, map, flat_map,
// aggregate, and their forms for Go functions.
//
// Each operator is a value that describes it, such as [Filter]: OutputSchema gives
// the schema of what it emits, at plan time, and New makes one operator for one
// task. What New returns may be used once and by one goroutine.
//
// # Rules
//
//   - A record that cannot be processed goes to Output.Reject with an error that
//     names topic, partition and offset, and the operator goes on: the component's
//     on_error policy is the engine's. An error returned from Process ends the
//     attempt and is for what is wrong with the task itself.
//   - What a record becomes depends on the record and the state of its key, and on
//     nothing else: a replay gives the same bytes.
//   - A rejected record leaves no trace in state.
//   - A record that passes unchanged keeps its place in the source's batch
//     (Batch.Derive), so that a sink can produce that very record.
//   - map and flat_map change the value; key, headers and timestamp stay.
//   - A null value (a tombstone) passes decode and map unchanged.
package transform
