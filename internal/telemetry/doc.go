// Package telemetry is where the events of the engine become metrics, spans and
// log lines. The engine knows none of these: it calls a stream.Listener and adds
// to plain counters, and this package publishes them.
//
//   - Metrics are OpenTelemetry instruments. What happens per record is never one
//     of them: stream.Counters are read by a callback when somebody collects. Names
//     are a contract (docs/metrics.md, testdata/metrics): a renamed one breaks the
//     dashboards of others.
//   - Spans: one for each checkpoint, with children align, snapshot, pre_commit,
//     upload and commit.
//   - Logs: one line for each checkpoint, restart and recovery; repeats are counted
//     instead of written. Nothing of a record is ever logged.
//   - HTTP: /metrics for Prometheus, /livez and /readyz, on a loopback address.
//   - OTLP by the standard OTEL_ variables, off unless one of them asks for it.
//
// All calls of the listener return at once; none of them waits for an exporter.
package telemetry
