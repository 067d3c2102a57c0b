package demo

// point is a place at which the worker is killed.
type point struct {
	name string
	// where says it to people.
	where string
	// pass is which passing of the point to die at, counted from the start of the
	// process: so that it falls into the second or third checkpoint.
	pass int
	// once says that the point is passed on recovery only.
	recovery bool
}

// between are the points between pre-commit and commit, where it hurts most: they
// come first, in this order.
var between = []point{
	{"checkpoint.published", "checkpoint published, none of its transactions committed", 2, false},
	{"log.append.checkpoint.before", "all transactions prepared, checkpoint not published", 3, false},
	{"kafka.endtxn.after", "one transaction committed, the others and the note of it not", 3, false},
}

// others follow, chosen by the seed.
var others = []point{
	{"kafka.flush.before", "pre-commit: rows in flight to the broker", 3, false},
	{"kafka.prepared", "pre-commit: one of two transactions prepared", 3, false},
	{"kafka.endtxn.before", "commit decided and not sent", 4, false},
	{"kafka.verified", "transaction committed and visible, noted nowhere", 3, false},
	{"task.snapshot.sealed", "snapshot taken, barrier not passed on", 8, false},
	{"task.acknowledge.before", "snapshot durable, not acknowledged", 6, false},
	{"storage.put.before_sync", "checkpoint half written to the disk", 4, false},
	{"log.append.checkpoint.after", "checkpoint published, nobody told", 3, false},
	{"recover.V4", "recovery: transactions looked at, none committed", 1, true},
	{"recover.committed", "recovery: transactions committed, not noted", 1, true},
	{"recover.fenced", "recovery: the killed worker's leftovers aborted", 1, true},
}

// weak are the points of a run without transactions.
var weak = []point{
	{"log.append.checkpoint.before", "rows written, the checkpoint that knows of them not published", 3, false},
	{"task.acknowledge.before", "snapshot durable, not acknowledged", 6, false},
	{"task.barrier.forwarded", "barrier on its way between the tasks", 8, false},
	{"storage.put.before_sync", "checkpoint half written to the disk", 4, false},
}

// plan returns n points: the named ones first, then others by chance, a recovery
// point only behind one that leaves something to recover.
func (r *run) plan(n int) (out []point) {
	first, rest := between, others
	if r.o.AtLeastOnce {
		first, rest = nil, weak
	}
	for len(out) < n {
		if len(out) < len(first) {
			out = append(out, first[len(out)])
			continue
		}
		p := rest[r.rand.IntN(len(rest))]
		if last := len(out) - 1; last >= 0 && (out[last].name == p.name || p.recovery && out[last].recovery) {
			continue
		}
		out = append(out, p)
	}
	return out
}
