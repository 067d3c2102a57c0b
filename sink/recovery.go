package sink

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// Evidence is what was found outside before anything is changed (V3, V4).
type Evidence struct {
	// Published are the retained published checkpoints, oldest first; the last one
	// is what a restart would restore.
	Published []*checkpoint.Metadata
	// Confirmed says, by lane, up to where everything is durably noted as resolved.
	Confirmed map[stream.TaskID]stream.CheckpointID
	// Probed holds the answers for the committables that are not confirmed.
	Probed map[string]Probed
	// Markers holds the newest committed checkpoint by lane, for sinks that keep a
	// marker.
	Markers map[stream.TaskID]stream.CheckpointID
	// AcceptAhead takes a checkpoint although sinks are ahead of it: somebody has
	// accepted that rows are written again.
	AcceptAhead bool
}

// Name returns the key of a committable in Evidence.Probed.
func Name(c *checkpoint.Committable) string {
	return fmt.Sprintf("%s/%d/%s/%d", c.Sink, c.Subtask, c.Checkpoint, c.Seq)
}

// Decision is what recovery is to do (V4).
type Decision struct {
	// Restore is the checkpoint to restore, Commit its unresolved committables in
	// order of their deadlines, Abandon the newer published checkpoints.
	Restore *checkpoint.Metadata
	Commit  []checkpoint.Committable
	Abandon []stream.CheckpointID
	// Why says why newer ones are abandoned.
	Why string
}

// Decide picks the newest retained checkpoint m such that, in every lane,
// everything up to m is committed or committable and nothing beyond m is
// committed (V4). It changes nothing. When there is none it returns
// an error of class DataLoss with the facts.
func Decide(ev Evidence) (Decision, error) {
	var facts []string
	for i := len(ev.Published) - 1; i >= 0; i-- {
		m := ev.Published[i]
		problems := append(ev.missing(m), ev.ahead(m)...)
		if len(problems) == 0 {
			d := Decision{Restore: m, Commit: ev.open(m), Why: strings.Join(facts, "; ")}
			for _, newer := range ev.Published[i+1:] {
				d.Abandon = append(d.Abandon, newer.ID)
			}
			return d, nil
		}
		facts = append(facts, fmt.Sprintf("checkpoint %s: %s", m.ID, strings.Join(problems, ", ")))
	}
	return Decision{}, stream.Errorf(stream.DataLoss, "restore.no_exact_checkpoint", "restore", "",
		"no retained checkpoint agrees with what the sinks have: %s", strings.Join(facts, "; ")).
		WithFix("choose: --from a checkpoint with --accept-duplicates writes the rows after it again; nothing can bring lost rows back")
}

// confirmed reports whether a committable is durably noted as resolved.
func (ev *Evidence) confirmed(c *checkpoint.Committable) bool {
	return c.Checkpoint <= ev.Confirmed[c.Lane()]
}

// missing lists the committables of m that are neither committed nor committable.
func (ev *Evidence) missing(m *checkpoint.Metadata) (out []string) {
	for i := range m.Committables {
		c := &m.Committables[i]
		if ev.confirmed(c) {
			continue
		}
		p, ok := ev.Probed[Name(c)]
		if !ok || p.Status == Gone || p.Status == Unknown {
			out = append(out, fmt.Sprintf("%d rows of %s at %s are %s (%s) from %v", c.Rows, c.Lane(), c.Checkpoint, p.Status, p.Detail, c.Sources))
		}
	}
	return out
}

// Ahead lists, for a checkpoint somebody asks for, the lanes that have committed
// something beyond it, and the newer published checkpoints in h whose committables
// are not resolved: restoring m would write their rows twice, or could.
func (ev *Evidence) Ahead(m *checkpoint.Metadata, h *checkpoint.History) (out []string) {
	for lane, id := range ev.Markers {
		if id > m.ID {
			out = append(out, fmt.Sprintf("%s has committed %s already", lane, id))
		}
	}
	for _, newer := range h.Published() {
		if newer.ID <= m.ID {
			continue
		}
		if n := len(h.Unresolved(newer)); n > 0 {
			out = append(out, fmt.Sprintf("checkpoint %s is published, and %d of its transactions are not resolved", newer.ID, n))
		}
	}
	slices.Sort(out)
	return out
}

// ahead lists the lanes that have committed something beyond m.
func (ev *Evidence) ahead(m *checkpoint.Metadata) (out []string) {
	if ev.AcceptAhead {
		return nil
	}
	for lane, id := range ev.Markers {
		if id > m.ID {
			out = append(out, fmt.Sprintf("%s has committed %s already", lane, id))
		}
	}
	for _, newer := range ev.Published {
		if newer.ID <= m.ID {
			continue
		}
		for i := range newer.Committables {
			c := &newer.Committables[i]
			if c.Checkpoint <= m.ID {
				continue
			}
			switch p, ok := ev.Probed[Name(c)]; {
			case ev.confirmed(c), p.Status == Committed:
				out = append(out, fmt.Sprintf("%s has committed %s already", c.Lane(), c.Checkpoint))
			case !ok, p.Status == Unknown: // what proves nothing does not prove that it was not committed (I10)
				out = append(out, fmt.Sprintf("%s may have committed %s already (%s)", c.Lane(), c.Checkpoint, p.Detail))
			}
		}
	}
	return out
}

// open returns the committables of m that are not confirmed. Lanes keep the id
// order among their own; the ledger runs them side by side, so the earliest
// deadline waits for nobody but its own lane.
func (ev *Evidence) open(m *checkpoint.Metadata) (out []checkpoint.Committable) {
	for _, c := range m.Committables {
		if !ev.confirmed(&c) {
			out = append(out, c)
		}
	}
	return out
}

// Expired reports whether a marker written at or after published can have been
// deleted by its store, which keeps it for retention after the group's last
// activity (I10).
func Expired(published, now time.Time, retention time.Duration) bool {
	return retention > 0 && now.Sub(published) >= retention
}
