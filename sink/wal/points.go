package wal

// Points are the fault points of all targets, each with the number under which the
// torture counts it (docs/torture.md).
var Points = map[string]string{
	"wal.upload.before":        "K23",  // sealed, nothing stored
	"wal.uploaded":             "K23b", // stored, nobody knows it yet
	"wal.deliver.before":       "K42",  // permitted, not delivered
	"wal.postgres.written":     "K42b", // rows and marker written, not committed
	"wal.postgres.commit.sent": "K43",  // COMMIT is on the wire; its answer is lost
	"wal.kafka.initialised":    "K42c", // fenced and read the marker, nothing written
	"wal.kafka.written":        "K42d", // rows acknowledged, no marker
	"wal.http.answered":        "K42e", // some requests of an epoch are answered
	"wal.delivered":            "K43b", // delivered, the confirmation is not durable
	"wal.recover.probed":       "K50",
	"wal.fence.before":         "K52",
	"wal.fence.after":          "K53",
}
