package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"etl/checkpoint"
	"etl/config"
	"etl/state"
	"etl/stream"
)

func (a *app) checkpointsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoints",
		Short: "list, inspect and verify the checkpoints of a job, running or not",
		Example: `  etl checkpoints ls pipeline.yaml
  etl checkpoints inspect pipeline.yaml 3.17
  etl checkpoints verify pipeline.yaml`,
	}
	cmd.AddCommand(
		a.offline("checkpoints", "ls FILE", "list the retained checkpoints, newest first, and failed ones from the history", a.listCheckpoints),
		a.offline("checkpoints", "inspect FILE [ID]", "print all of a checkpoint's metadata; the newest without an ID", a.inspectCheckpoint),
		a.offline("checkpoints", "verify FILE [ID]", "read every object of a checkpoint and verify its checksum", a.verifyCheckpoint))
	return group(cmd)
}

// offline makes a command of a group that reads the job's storage.
func (a *app) offline(of, use, short string, f func(*cobra.Command, context.Context, *config.Job, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: "  etl " + of + " " + use, Args: cobra.RangeArgs(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return oneFile(cmd, args)
			}
			job, err := a.load(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := a.patient(cmd)
			defer cancel()
			return f(cmd, ctx, job, args[1:])
		}}
}

// listed is one line of checkpoints ls.
type listed struct {
	ID        stream.CheckpointID `json:"id"`
	Kind      string              `json:"kind"`
	Status    string              `json:"status"` // completed | failed
	At        time.Time           `json:"at"`
	Took      time.Duration       `json:"took_ns"`
	Size      int64               `json:"size_bytes"`
	Delta     int64               `json:"delta_bytes"`
	Alignment time.Duration       `json:"alignment_ns"`
	Pending   int                 `json:"pending"`
	Note      string              `json:"note,omitempty"`
}

func (a *app) listCheckpoints(cmd *cobra.Command, ctx context.Context, job *config.Job, _ []string) error {
	st, err := job.OpenStorage(ctx, a.world)
	if err != nil {
		return err
	}
	h, err := checkpoint.ReadHistory(ctx, st)
	if err != nil {
		return err
	}
	var rows []listed
	published := h.Published()
	for i := len(published) - 1; i >= 0; i-- {
		m := published[i]
		rows = append(rows, listed{ID: m.ID, Kind: m.Kind, Status: "completed", At: m.PublishedAt, Took: m.Statistics.Duration, Size: m.Statistics.Size,
			Delta: m.Statistics.Delta, Alignment: m.Statistics.Alignment, Pending: len(h.Unresolved(m))})
	}
	failed, err := failures(ctx, st)
	if err != nil {
		return err
	}
	rows = append(rows, failed...)
	if !a.json {
		a.table(rows)
	}
	return a.done(cmd, map[string]any{"lineage": h.Lineage(), "attempts": len(h.Attempts()), "checkpoints": rows})
}

// failures returns the failed checkpoints of the newest journal.
func failures(ctx context.Context, st checkpoint.Storage) (out []listed, err error) {
	journals, err := st.List(ctx, checkpoint.HistoryPrefix)
	if err != nil || len(journals) == 0 {
		return nil, err
	}
	b, err := st.Get(ctx, journals[len(journals)-1].Name)
	if err != nil {
		if errors.Is(err, checkpoint.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	for _, line := range bytes.Split(b, []byte("\n")) {
		var l checkpoint.HistoryLine
		if json.Unmarshal(line, &l) != nil || l.Phase != "aborted" {
			continue
		}
		out = append(out, listed{ID: l.ID, Kind: l.Kind, Status: "failed", At: l.At, Took: l.Duration, Note: l.Reason + ": " + l.Error})
	}
	return out, nil
}

func (a *app) table(rows []listed) {
	if len(rows) == 0 {
		a.say("no checkpoints yet\n")
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tKIND\tSTATUS\tAGE\tTOOK\tSTATE\tDELTA\tALIGN\tPENDING\tNOTE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%v\t%d\t%d\t%v\t%d\t%s\n", r.ID, r.Kind, r.Status, a.world.Clock.Now().Sub(r.At).Round(time.Second),
			r.Took.Round(time.Millisecond), r.Size, r.Delta, r.Alignment.Round(time.Millisecond), r.Pending, r.Note)
	}
	_ = w.Flush()
}

// pick returns the checkpoint a command names, the newest without a name.
func (a *app) pick(ctx context.Context, st checkpoint.Storage, args []string) (*checkpoint.Metadata, error) {
	h, err := checkpoint.ReadHistory(ctx, st)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		if m := h.Newest(); m != nil {
			return m, nil
		}
		return nil, stream.Errorf(stream.RestoreRefused, "restore.not_found", "read checkpoints", st.URL(), "there are none")
	}
	id, err := stream.ParseCheckpointID(args[0])
	if err != nil {
		return nil, stream.Errorf(stream.BadConfig, "cli.checkpoint_id", "", "", "%w", err)
	}
	if m := h.Find(id); m != nil {
		return m, nil
	}
	return nil, stream.Errorf(stream.RestoreRefused, "restore.not_found", "read checkpoints", id.String(), "no such checkpoint is retained in %s", st.URL())
}

func (a *app) inspectCheckpoint(cmd *cobra.Command, ctx context.Context, job *config.Job, args []string) error {
	st, err := job.OpenStorage(ctx, a.world)
	if err != nil {
		return err
	}
	m, err := a.pick(ctx, st, args)
	if err != nil {
		return err
	}
	if a.json {
		return a.done(cmd, m)
	}
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	return e.Encode(m)
}

// verified is the result of checkpoints verify.
type verified struct {
	ID      stream.CheckpointID `json:"id"`
	Objects int                 `json:"objects"`
	Bytes   int64               `json:"bytes"`
}

func (a *app) verifyCheckpoint(cmd *cobra.Command, ctx context.Context, job *config.Job, args []string) error {
	st, err := job.OpenStorage(ctx, a.world)
	if err != nil {
		return err
	}
	m, err := a.pick(ctx, st, args)
	if err != nil {
		return err
	}
	if err := checkpoint.VerifyObjects(ctx, st, m); err != nil {
		return err
	}
	v, objects, err := verified{ID: m.ID}, checkpoint.NewObjects(st), error(nil)
	m.Objects(func(h state.Handle) {
		if err == nil {
			err = readAll(ctx, objects, h)
			v.Objects, v.Bytes = v.Objects+1, v.Bytes+h.Size
		}
	})
	if err != nil {
		return err
	}
	if err := m.CheckChains(); err != nil {
		return stream.Errorf(stream.RestoreRefused, "restore.broken_chain", "verify", m.ID.String(), "%w", err)
	}
	for _, c := range job.Graph.Compare(m, nil) {
		if c.Fate == "refused" {
			return stream.Errorf(stream.RestoreRefused, "restore.incompatible", "verify", m.ID.String(), "%s: %s", c.UID, c.Why)
		}
	}
	a.print("checkpoint %s: %s, %d bytes, every checksum is right\n", v.ID, plural(v.Objects, "piece"), v.Bytes)
	return a.done(cmd, v)
}

func readAll(ctx context.Context, o checkpoint.Objects, h state.Handle) error {
	r, err := o.Read(ctx, h)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}
