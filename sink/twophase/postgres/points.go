package postgres

// Points are all fault points of the sink, each with the number under which the torture
// counts it (docs/torture.md).
var Points = map[string]string{
	"postgres.marked":          "K19",  // one of marker and rows is written, the other not
	"postgres.prepare.before":  "K20",  // all is written, nothing prepared
	"postgres.prepare.sent":    "K21",  // PREPARE is on the wire; its answer is lost
	"postgres.prepared":        "K22",  // prepared, nobody knows it yet
	"postgres.stage.before":    "K22b", // nothing staged
	"postgres.stage.copied":    "K22c", // copied, not committed
	"postgres.stage.sent":      "K22d", // COMMIT is on the wire; its answer is lost
	"postgres.stage.after":     "K22e", // staged, nobody knows it yet
	"postgres.commit.before":   "K38",
	"postgres.commit.sent":     "K39", // COMMIT PREPARED is on the wire; its answer is lost
	"postgres.commit.after":    "K40", // one lane has committed, the others not
	"postgres.merge.before":    "K42", // permitted, not merged
	"postgres.merge.merged":    "K42b",
	"postgres.merge.sent":      "K43",
	"postgres.merge.after":     "K43b",
	"postgres.abort.before":    "K28p", // aborted, not rolled back
	"postgres.abort.after":     "K28q", // rolled back, not prepared again
	"postgres.recover.probed":  "K50",
	"postgres.recover.marker":  "K51", // resolved by its marker
	"postgres.fence.before":    "K52",
	"postgres.fence.rolled":    "K52b", // rolled back, not taken over
	"postgres.fence.takeover":  "K52c",
	"postgres.fence.takenover": "K53", // taken over, nothing dropped
	"postgres.fence.after":     "K53b",
	"postgres.end.sent":        "K39e", // somebody ends a transaction by its name; the answer is lost
}
