package file

// Points are all fault points of the sink, each with the number under which the torture
// counts it (docs/torture.md).
var Points = map[string]string{
	"file.begun":           "K24a", // the epoch has its directory and no file
	"file.closed":          "K24",  // files are whole, nothing is synced
	"file.prepare.synced":  "K24b", // synced, the directory still says open
	"file.prepare.renamed": "K24c", // prepared, its name not durable
	"file.prepared":        "K24d", // prepared, nobody knows it yet
	"file.commit.before":   "K41a", // permitted, no intent
	"file.commit.intent":   "K41b", // the intent is durable, nothing moved
	"file.commit.moved":    "K41",  // some files moved
	"file.commit.synced":   "K41c", // all moved and durable, nobody knows it yet
	"file.recover.probed":  "K50f",
	"file.fence.named":     "K52f", // the directory has its dead name, nothing is removed
	"file.fence.after":     "K53f",
}
