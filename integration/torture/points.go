package torture

import "slices"

// Road says on which way of a job a point lies.
type Road string

// The roads. A point lies on the way of every job from Steady and Restart; the others
// need what their tests arrange.
const (
	Steady   Road = "steady"   // a running job of any kind
	Restart  Road = "restart"  // a start that finds an earlier attempt
	Fresh    Road = "fresh"    // the first start of a job
	Keyed    Road = "keyed"    // a running job with keyed state
	KeyedUp  Road = "keyed up" // a start that restores keyed state
	Tiered   Road = "tiered"   // keyed state larger than its memory
	TieredUp Road = "tiered up"
	Aborting Road = "aborting" // a checkpoint was given up
	Marker   Road = "marker"   // transactions whose id was used again: only the marker tells
	Heal     Road = "heal"     // a broker killed at the worst moment
	From     Road = "from"     // an older checkpoint is restored on purpose
	Closing  Road = "closing"  // on_cancel: delete
)

// Point is one fault point, with the number K under which it is counted. Frozen says
// that the two-owner tests stop a process there.
type Point struct {
	Name   string
	K      string
	Road   Road
	Frozen bool
	// Many says that it is passed several times in a start or a checkpoint.
	Many bool
	// Doubt says that it is passed only if the last attempt left something in doubt.
	Doubt bool
	// After is the point at which the last attempt must have died for that; "" for the
	// publication.
	After string
}

// Points are all fault points there are. A test compares them with the code.
var Points = []Point{
	// Barriers and snapshots.
	{Name: "source.positions_taken", K: "K03", Road: Steady, Frozen: true, Many: true},
	{Name: "task.snapshot.before", K: "K02", Road: Steady, Many: true},
	{Name: "task.snapshot.sealed", K: "K03b", Road: Steady, Many: true},
	{Name: "task.barrier.forwarded", K: "K04", Road: Steady, Many: true},
	{Name: "K08-snapshot", K: "K08", Road: Keyed, Many: true},
	{Name: "K08-copied-out", K: "K08b", Road: Keyed, Many: true},
	{Name: "K13-segment-encoded", K: "K13", Road: Keyed, Many: true},
	{Name: "uploader.create", K: "K10a", Road: Keyed, Many: true},
	{Name: "storage.create.before_sync", K: "K11", Road: Keyed, Many: true},
	{Name: "storage.create.before_link", K: "K11b", Road: Keyed, Many: true},
	{Name: "storage.create.linked", K: "K12a", Road: Keyed, Many: true},
	{Name: "storage.create.done", K: "K12b", Road: Keyed, Many: true},
	{Name: "state.apply.begun", K: "K09a", Road: Tiered, Many: true},
	{Name: "state.apply.batch", K: "K09b", Road: Tiered, Many: true},
	{Name: "state.apply.done", K: "K09c", Road: Tiered, Many: true},
	{Name: "K09-before-links", K: "K09", Road: Tiered},
	{Name: "K10-base-file-uploaded", K: "K10", Road: Tiered, Many: true},
	{Name: "K12-base-uploaded", K: "K12", Road: Tiered},

	// Pre-commit.
	{Name: "kafka.init.before", K: "K44b", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.init.after", K: "K44c", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.begin", K: "K44", Road: Steady, Many: true},
	{Name: "task.finish.before", K: "K14", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.flush.before", K: "K15", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.flush.after", K: "K15b", Road: Steady, Many: true},
	{Name: "kafka.marker.before", K: "K16", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.marker.added", K: "K17", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.marker.after", K: "K18", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.prepared", K: "K18b", Road: Steady, Frozen: true, Many: true},
	{Name: "task.finish.after", K: "K25", Road: Steady, Many: true},
	{Name: "task.acknowledge.before", K: "K22", Road: Steady, Many: true},
	{Name: "task.acknowledge.after", K: "K22b", Road: Steady, Frozen: true, Many: true},

	{Name: "task.aborted", K: "K01", Road: Aborting, Frozen: true, Many: true},

	// Publication.
	{Name: "checkpoint.append.declined", K: "K26a", Road: Steady, Many: true},
	{Name: "log.append.checkpoint.before", K: "K26", Road: Steady, Frozen: true, Many: true},
	{Name: "storage.put.before_sync", K: "K27", Road: Steady, Frozen: true, Many: true},
	{Name: "storage.put.before_link", K: "K28", Road: Steady, Frozen: true, Many: true},
	{Name: "storage.put.linked", K: "K29", Road: Steady, Frozen: true, Many: true},
	{Name: "storage.put.done", K: "K30", Road: Steady, Frozen: true, Many: true},
	{Name: "log.append.checkpoint.after", K: "K30b", Road: Steady, Frozen: true, Many: true},
	{Name: "checkpoint.published", K: "K33", Road: Steady, Frozen: true, Many: true},
	{Name: "retention.delete", K: "K31", Road: Steady, Many: true},
	{Name: "storage.delete.removed", K: "K32", Road: Steady, Many: true},

	// Commit.
	{Name: "kafka.endtxn.before", K: "K35", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.endtxn.sent", K: "K36", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.endtxn.after", K: "K37", Road: Steady, Frozen: true, Many: true},
	{Name: "kafka.heal.before", K: "K37b", Road: Heal},
	{Name: "kafka.verified", K: "K37c", Road: Steady, Frozen: true, Many: true},
	{Name: "source.report", K: "K45", Road: Steady, Many: true},

	// Recovery.
	{Name: "recover.V1", K: "K46", Road: Restart, Frozen: true},
	{Name: "log.append.attempt.before", K: "K46b", Road: Restart, Frozen: true},
	{Name: "log.append.attempt.after", K: "K47", Road: Restart, Frozen: true},
	{Name: "recover.V2", K: "K47b", Road: Restart, Frozen: true},
	{Name: "recover.V3", K: "K48", Road: Restart, Frozen: true},
	{Name: "kafka.recover.probed", K: "K50", Road: Restart, Frozen: true, Doubt: true},
	{Name: "recover.V4", K: "K50b", Road: Restart, Frozen: true},
	{Name: "kafka.recover.resolved", K: "K51", Road: Marker},
	{Name: "recover.committed", K: "K51b", Road: Restart, Frozen: true, Doubt: true},
	{Name: "log.append.confirmed.before", K: "K51c", Road: Restart, Frozen: true, Doubt: true},
	{Name: "log.append.confirmed.after", K: "K51d", Road: Restart, Frozen: true, Doubt: true},
	{Name: "recover.V5", K: "K52a", Road: Restart, Frozen: true},
	{Name: "kafka.fence.before", K: "K52", Road: Restart, Frozen: true},
	{Name: "kafka.fence.described", K: "K52b", Road: Restart, Frozen: true, Many: true},
	{Name: "kafka.fence.aborted", K: "K52c", Road: Restart, Frozen: true, Many: true},
	{Name: "kafka.fence.sealed", K: "K53", Road: Restart, Frozen: true, Many: true},
	{Name: "kafka.fence.after", K: "K53b", Road: Restart, Frozen: true},
	{Name: "recover.fenced", K: "K53c", Road: Restart, Frozen: true},
	{Name: "recover.V6", K: "K53d", Road: Restart, Frozen: true},
	{Name: "K49-base-loaded", K: "K49", Road: TieredUp},
	{Name: "K49-segment-replayed", K: "K49b", Road: KeyedUp, Many: true},
	{Name: "K49-store-filled", K: "K49c", Road: KeyedUp, Many: true},
	{Name: "recover.V7", K: "K49d", Road: Restart},
	{Name: "recover.V8", K: "K53e", Road: Restart},
	{Name: "recover.initial_published", K: "K55a", Road: Fresh},
	{Name: "recover.V9", K: "K55b", Road: Restart},
	{Name: "source.first_poll", K: "K55", Road: Restart, Many: true},

	// Ends that somebody asked for.
	{Name: "log.append.abandoned.before", K: "K48b", Road: From},
	{Name: "log.append.abandoned.after", K: "K48c", Road: From},
	{Name: "log.append.closed.before", K: "K60a", Road: Closing},
	{Name: "log.append.closed.after", K: "K60b", Road: Closing},
}

// onTheWay are the points that lie on the way of a job.
func onTheWay(roads ...Road) (out []Point) {
	for _, p := range Points {
		if slices.Contains(roads, p.Road) {
			out = append(out, p)
		}
	}
	return out
}

// Recovers reports whether the point lies before the first record is read.
func (p *Point) Recovers() bool {
	return slices.Contains([]Road{Restart, Fresh, KeyedUp, TieredUp, Marker, From}, p.Road)
}
