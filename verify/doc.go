// Package verify recounts the output of a pipeline from its input.
//
// # Independence
//
// It reads the source topics and what the sinks wrote, and computes anew what the sinks
// have to hold. Of the product it uses the expression language and nothing else:
// no state, no operators, no checkpoints, no counters of the engine. A mistake in
// those cannot hide here. What it has in common with the engine is the broker, the
// client library's decoding of record batches, and package expr.
//
// # Reading
//
// A partition is read with plain fetch requests, everything in it: data, aborted
// data, control records. Which transactions were committed is decided here, from
// the control records. Offsets must rise strictly, and what is skipped is counted.
// Sink topics are then read a second time by an ordinary read_committed consumer,
// as any user of the output would, and both must have seen the same records at the
// same offsets.
//
// Files, tables and what an endpoint wrote down are read by readers of this package's
// own (place), their rows as JSON in one form for each value. Tables and endpoints have
// no order; results that show a plain count are put in the order of it.
//
// Sinks are read first and sources afterwards, so that every row of a sink has its
// cause in what is read.
//
// # What is compared
//
// A path without an aggregate must yield exactly the rows that the expressions
// give: same key, value, headers and time, each as often as it should be, and in
// order per source partition where the path keeps order.
//
// Behind an aggregate that emits on change, the rows of a key must be what the
// inputs of the key give in some order that keeps the order of each source
// partition. That order is searched for; if it exists, no update was lost, doubled
// or computed from a wrong state. With on_checkpoint the rows must lie on such an
// order, and the last one must be the full count.
//
// Rows that are missing only behind the last input of a source partition that has
// had an effect are reported as behind: not yet processed. All others are missing.
//
// # Honesty
//
// Whatever could not be checked exactly is listed in Result.NotChecked, and sinks of
// which nothing was in Result.LeftOut. A result is OK when everything in Checked holds;
// it says nothing about the rest. A pipeline of which nothing is known is refused.
//
// # For test harnesses
//
// Watcher, Topic, Hanging, RunningCounts and SourceOrder are the small checkers a
// harness needs that kills processes: they are used here as well.
package verify
