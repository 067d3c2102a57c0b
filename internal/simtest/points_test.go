package simtest

import (
	"slices"
	"strings"
)

// points are the fault points that lie on the way of the simulated pipelines. A
// run fails when one of them is never passed, or nobody died there, or one is
// passed that is not listed.
var points = slices.Concat(everywhere, ofState, ofBase)

var everywhere = []string{
	"checkpoint.published", "checkpoint.append.declined",
	"kafka.begin", "kafka.endtxn.before", "kafka.endtxn.sent", "kafka.endtxn.after",
	"kafka.fence.before", "kafka.fence.described", "kafka.fence.aborted", "kafka.fence.sealed", "kafka.fence.after",
	"kafka.flush.before", "kafka.flush.after", "kafka.init.before", "kafka.init.after",
	"kafka.marker.before", "kafka.marker.added", "kafka.marker.after", "kafka.prepared",
	"kafka.recover.probed", "kafka.recover.resolved", "kafka.verified",
	"log.append.attempt.before", "log.append.attempt.after", "log.append.checkpoint.before", "log.append.checkpoint.after",
	"log.append.confirmed.before", "log.append.confirmed.after", "log.append.abandoned.before", "log.append.abandoned.after",
	"recover.V1", "recover.V2", "recover.V3", "recover.V4", "recover.V5", "recover.V6", "recover.V7", "recover.V8", "recover.V9",
	"recover.committed", "recover.fenced", "recover.initial_published",
	"retention.delete", "source.first_poll", "source.positions_taken", "source.report",
	"storage.delete.removed", "storage.put.before_link", "storage.put.before_sync", "storage.put.done", "storage.put.linked",
	"task.aborted", "task.acknowledge.after", "task.acknowledge.before", "task.barrier.forwarded", "task.finish.after", "task.finish.before",
	"task.snapshot.before", "task.snapshot.sealed",
}

// ofState are passed by pipelines with keyed state.
var ofState = []string{
	"storage.create.before_link", "storage.create.before_sync", "storage.create.done", "storage.create.linked", "uploader.create",
	"K08-copied-out", "K08-snapshot", "K13-segment-encoded", "K49-segment-replayed",
}

// ofBase are passed by the state backend on Pebble.
var ofBase = []string{
	"K09-before-links", "K10-base-file-uploaded", "K12-base-uploaded", "K49-base-loaded", "K49-store-filled",
	"state.apply.begun", "state.apply.batch", "state.apply.done",
}

// mortalPoints are those at which a process of this plan can die.
func (p *plan) mortalPoints() []string {
	switch {
	case !p.shape.keyed():
		return everywhere
	case !p.pebble:
		return slices.Concat(everywhere, ofState)
	}
	return points
}

// once reports whether a point is passed once or a few times in a life.
func once(point string) bool {
	for _, prefix := range []string{"recover.", "log.append.attempt", "log.append.confirmed", "log.append.abandoned", "source.first", "K49", "K09", "K12", "state.apply", "kafka.recover", "kafka.fence"} {
		if strings.HasPrefix(point, prefix) {
			return true
		}
	}
	return false
}
