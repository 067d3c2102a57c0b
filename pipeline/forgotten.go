package pipeline

import (
	"context"
	"fmt"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// unforgotten looks whether the sinks still have what was confirmed (V4). What is confirmed
// is never asked about again, so a server that went back in time, to a backup or to a
// standby that lacked the last commits, would lose rows silently (I13). Only a marker that
// stays can tell, by its absence, and only of checkpoints that are retained.
func (a *attempt) unforgotten(ctx context.Context) error {
	if a.o.Restore.AcceptDuplicates || a.o.Restore.Empty {
		return nil
	}
	for uid, cs := range newestConfirmed(a.history()) {
		n, c := a.graph.Node(uid), a.committers[uid]
		if c == nil || !n.Sink.Features.MarkerStays { // nil: the sink is gone, or the mode commits nothing any more
			continue
		}
		got, err := c.Probe(ctx, cs, time.Time{})
		if stream.ClassOf(err) == stream.RestoreRefused {
			continue // a sink of another kind had the name
		}
		if err != nil {
			return fmt.Errorf("probe %s: %w", uid, err)
		}
		for i := range cs {
			if got[i].Marker < cs[i].Checkpoint {
				return forgottenError(&cs[i], &got[i])
			}
		}
	}
	return nil
}

// newestConfirmed returns the newest confirmed committable of each lane, by sink, among
// those that retained checkpoints list.
func newestConfirmed(h *checkpoint.History) map[stream.UID][]checkpoint.Committable {
	newest, done := map[stream.TaskID]checkpoint.Committable{}, h.Confirmed()
	for _, m := range h.Published() {
		for _, c := range m.Committables {
			old, known := newest[c.Lane()]
			if c.Checkpoint <= done[c.Lane()] && c.Checkpoint > h.Accepted() && (!known || old.Checkpoint < c.Checkpoint) {
				newest[c.Lane()] = c
			}
		}
	}
	out := map[stream.UID][]checkpoint.Committable{}
	for _, c := range newest {
		out[c.Sink] = append(out[c.Sink], c)
	}
	return out
}

func forgottenError(c *checkpoint.Committable, p *sink.Probed) error {
	has := "nothing of this job"
	if p.Marker != stream.NoCheckpoint {
		has = "checkpoint " + p.Marker.String()
	}
	return stream.Errorf(stream.DataLoss, "sink.forgotten", "restore", c.Lane().String(),
		"checkpoint %s was committed and confirmed, %d rows from %v, and the newest that the sink has is %s: it was restored from a backup, lost its last commits in a failover, is another server, or somebody deleted the markers",
		c.Checkpoint, c.Rows, c.Sources, has).
		WithFix("bring the server back to what it had; or start with --from a checkpoint and --accept-duplicates: the rows after it are written again, and nothing before it is looked for")
}
