package simtest

// points are the fault points that lie on the way of the simulated pipelines. A
// run fails when one of them is never passed, or nobody died there, or one is
// passed that is not listed.
var points = []string{
	"checkpoint.published",
	"kafka.begin", "kafka.endtxn.before", "kafka.endtxn.sent", "kafka.endtxn.after",
	"kafka.fence.before", "kafka.fence.described", "kafka.fence.aborted", "kafka.fence.sealed", "kafka.fence.after",
	"kafka.flush.before", "kafka.flush.after", "kafka.init.before", "kafka.init.after",
	"kafka.marker.before", "kafka.marker.added", "kafka.marker.after", "kafka.prepared",
	"kafka.recover.probed", "kafka.recover.resolved", "kafka.verified",
	"log.append.attempt.before", "log.append.attempt.after", "log.append.checkpoint.before", "log.append.checkpoint.after",
	"log.append.confirmed.before", "log.append.confirmed.after",
	"recover.V1", "recover.V2", "recover.V3", "recover.V4", "recover.V5", "recover.V6", "recover.V7", "recover.V8", "recover.V9",
	"recover.committed", "recover.fenced", "recover.initial_published",
	"retention.delete", "source.first_poll", "source.positions_taken", "source.report",
	"storage.create.before_link", "storage.create.before_sync", "storage.create.done", "storage.create.linked", "storage.delete.removed",
	"storage.put.before_link", "storage.put.before_sync", "storage.put.done", "storage.put.linked",
	"task.acknowledge.after", "task.acknowledge.before", "task.barrier.forwarded", "task.finish.after", "task.finish.before",
	"task.snapshot.before", "task.snapshot.sealed", "checkpoint.append.declined", "uploader.create",
	"K08-copied-out", "K08-snapshot", "K13-segment-encoded", "K49-segment-replayed", "K49-store-filled",
}

// mortalPoints are those at which a process is made to die.
func mortalPoints() []string { return points }
