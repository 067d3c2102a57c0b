package torture

import (
	"slices"
	"strings"
)

// decided are the points of the protocol between the barrier and the commit, and on the
// way back, at which a worker that writes tables dies, too.
var decided = []Point{
	{Name: "task.finish.after", Road: Steady, Many: true},
	{Name: "task.aborted", Road: Aborting, Many: true},
	{Name: "log.append.checkpoint.before", Road: Steady, Many: true},
	{Name: "log.append.checkpoint.after", Road: Steady, Many: true},
	{Name: "checkpoint.published", Road: Steady, Many: true},
	{Name: "recover.V3", Road: Restart},
	{Name: "recover.V4", Road: Restart},
	{Name: "recover.V5", Road: Restart},
	{Name: "recover.V6", Road: Restart},
	{Name: "log.append.confirmed.after", Road: Restart, Doubt: true},
}

// back are the points on which a two-phase sink comes back.
var back = []Point{
	{Name: "postgres.recover.probed", Road: Restart, Doubt: true},
	{Name: "postgres.fence.before", Road: Restart},
	{Name: "postgres.fence.rolled", Road: Restart},
	{Name: "postgres.fence.takeover", Road: Restart},
	{Name: "postgres.fence.takenover", Road: Restart},
	{Name: "postgres.fence.after", Road: Restart},
}

// TablePoints are the points of the sinks that write tables, by strategy: at each of them
// somebody must have died. A test compares them with the code.
var TablePoints = map[Strategy][]Point{
	Prepared: append([]Point{
		{Name: "postgres.marked", Road: Steady, Many: true},
		{Name: "postgres.prepare.before", Road: Steady, Many: true},
		{Name: "postgres.prepare.sent", Road: Steady, Many: true},
		{Name: "postgres.prepared", Road: Steady, Many: true},
		{Name: "postgres.commit.before", Road: Steady, Many: true},
		{Name: "postgres.commit.sent", Road: Steady, Many: true},
		{Name: "postgres.commit.after", Road: Steady, Many: true},
		{Name: "postgres.abort.before", Road: Aborting, Many: true},
		{Name: "postgres.abort.after", Road: Aborting, Many: true},
		{Name: "postgres.recover.marker", Road: Restart, Doubt: true, After: "postgres.commit.after"},
	}, back...),
	Staged: append([]Point{
		{Name: "postgres.stage.before", Road: Steady, Many: true},
		{Name: "postgres.stage.copied", Road: Steady, Many: true},
		{Name: "postgres.stage.sent", Road: Steady, Many: true},
		{Name: "postgres.stage.after", Road: Steady, Many: true},
		{Name: "postgres.merge.before", Road: Steady, Many: true},
		{Name: "postgres.merge.merged", Road: Steady, Many: true},
		{Name: "postgres.merge.sent", Road: Steady, Many: true},
		{Name: "postgres.merge.after", Road: Steady, Many: true},
		{Name: "postgres.recover.marker", Road: Restart, Doubt: true, After: "postgres.merge.after"},
	}, back...),
	Logged: {
		{Name: "wal.upload.before", Road: Steady, Many: true},
		{Name: "wal.uploaded", Road: Steady, Many: true},
		{Name: "wal.deliver.before", Road: Steady, Many: true},
		{Name: "wal.postgres.written", Road: Steady, Many: true},
		{Name: "wal.postgres.commit.sent", Road: Steady, Many: true},
		{Name: "wal.delivered", Road: Steady, Many: true},
		{Name: "wal.recover.probed", Road: Restart, Doubt: true},
		{Name: "wal.fence.before", Road: Restart},
		{Name: "postgres.fence.rolled", Road: Restart},
		{Name: "postgres.fence.takeover", Road: Restart},
		{Name: "wal.fence.after", Road: Restart},
	},
	Idempotent: {
		{Name: "idempotent.write.before", Road: Steady, Many: true},
		{Name: "idempotent.postgres.written", Road: Steady, Many: true},
		{Name: "idempotent.postgres.commit.sent", Road: Steady, Many: true},
		{Name: "idempotent.write.after", Road: Steady, Many: true},
		{Name: "idempotent.flushed", Road: Steady, Many: true},
	},
}

// otherTargets are points of these sinks on which none of the jobs comes: other targets
// of the log, and a person who ends a transaction by its name.
func otherTargets(point string) bool {
	return strings.HasPrefix(point, "wal.kafka.") || strings.HasPrefix(point, "wal.http.") || point == "postgres.end.sent"
}

// pointsOf are all at which the workers of a strategy die. Where nothing is committed after
// the publication nothing is confirmed.
func pointsOf(s Strategy) []Point {
	all := slices.Concat(TablePoints[s], decided)
	if s == Idempotent {
		all = slices.DeleteFunc(all, func(p Point) bool { return p.Doubt })
	}
	return all
}

func tablePointCount() (n int) {
	for _, s := range Strategies {
		n += len(pointsOf(s))
	}
	return n
}
