package kafkatxn

// Points are the fault points of this package, each with the number under which the
// torture counts it (docs/torture.md).
var Points = map[string]string{
	"kafka.marker.before":    "K16", // flushed, marker not yet added
	"kafka.marker.added":     "K17", // group added (version 1) or about to be (version 2), marker not
	"kafka.marker.after":     "K18", // the transaction is complete, nobody knows it yet
	"kafka.endtxn.before":    "K35",
	"kafka.endtxn.sent":      "K36", // on the wire; the answer is lost
	"kafka.endtxn.after":     "K37", // answered, not verified
	"kafka.heal.before":      "K37b",
	"kafka.verified":         "K37c", // visible, not noted anywhere
	"kafka.fence.before":     "K52",
	"kafka.fence.described":  "K52b", // state known, nothing done
	"kafka.fence.aborted":    "K52c", // aborted, not sealed: a zombie could still get a good epoch
	"kafka.fence.sealed":     "K53",
	"kafka.fence.after":      "K53b",
	"kafka.recover.probed":   "K50", // probed, nothing committed
	"kafka.recover.resolved": "K51", // one committable resolved by its marker
}
