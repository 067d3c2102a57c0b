package telemetry

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"etl/stream"
)

// logJob writes a change of the job's phase.
func (t *Telemetry) logJob(e stream.JobEvent) {
	log := t.log
	switch e.Phase {
	case "running":
		log.Info("running", "restored", e.Restored.String())
	case "restarting":
		log.Warn("restarting from the last checkpoint", "cause", stream.CodeOf(e.Err), "error", e.Err)
	case "failed":
		log.Error("the job failed", "class", stream.ClassOf(e.Err).String(), "cause", stream.CodeOf(e.Err), "error", e.Err)
	case "fenced":
		log.Error("another process has taken the job over", "error", e.Err)
	default:
		log.Info(e.Phase)
	}
}

// logCommit writes what is worth reading about a commit: what recovery did, and
// what went otherwise than planned. The rows of an ordinary one are part of its
// checkpoint's line.
func (t *Telemetry) logCommit(e stream.CommitEvent, result string) {
	level, text := slog.LevelDebug, "transaction committed"
	switch {
	case result == "failed":
		level, text = slog.LevelError, "transaction not committed"
	case result == "retried":
		text = "commit is tried again"
	case e.Healed:
		level, text = slog.LevelWarn, "transaction committed, after markers that the broker had left out were written"
	case e.Recovery:
		level, text = slog.LevelInfo, "transaction of an earlier attempt committed"
	}
	if !t.log.Enabled(context.Background(), level) {
		return
	}
	t.log.LogAttrs(context.Background(), level, text, slog.String("component", string(e.Task.UID)), slog.Int("subtask", e.Task.Subtask), slog.String("id", e.ID.String()),
		slog.String("outcome", e.Outcome), slog.Bool("by_marker", e.ByMarker), slog.Int64("rows", e.Rows), slog.Duration("took", round(e.Duration)))
}

// round shortens a duration to what a reader cares for.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// size writes bytes with a unit, to one decimal.
func size(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes {
			return strconv.FormatFloat(float64(n)/float64(u.bytes), 'f', 1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
