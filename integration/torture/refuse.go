package torture

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Refusal is a start that must be refused, and change nothing.
type Refusal struct {
	Name string
	Kind Kind
	// Code is what the message must contain.
	Code string
	// Writes says that the refusal comes after the attempt was noted in the log.
	Writes bool
	// Spoil makes the start wrong: it returns its arguments, and how to undo it.
	Spoil func(ctx context.Context, l *Life) (args []string, mend func() error, err error)
}

// Refusals are all of them.
var Refusals = []Refusal{
	{Name: "older checkpoint", Kind: Count, Code: "restore.sink_ahead", Writes: true, Spoil: olderCheckpoint},
	{Name: "renamed uid", Kind: Count, Code: "restore.", Spoil: renamedUID},
	{Name: "missing object", Kind: Count, Code: "storage.object_missing", Writes: true, Spoil: missingObject},
	{Name: "marker ahead", Kind: Pass, Code: "restore.sink_ahead", Writes: true, Spoil: markerAhead},
	{Name: "foreign lineage", Kind: Fan, Code: "kafka.foreign_lineage", Writes: true, Spoil: foreignLineage},
}

// refusedStarts is how often a wrong start is tried: whoever watches over a process
// starts it again, and the traces of the first try must not let the second one in.
const refusedStarts = 2

// Refuse lets a job die with transactions in doubt, tries the wrong start, compares
// what is there before and after, and lets the job go on.
func (l *Life) Refuse(ctx context.Context, r Refusal) error {
	if err := l.dieBy(ctx, aim{point: inDoubt, nth: 6}, aim{point: inDoubt, nth: 6}); err != nil || !l.OK() {
		return err
	}
	args, mend, err := r.Spoil(ctx, l)
	if err != nil {
		return fmt.Errorf("spoil: %w", err)
	}
	before, err := l.outside(ctx)
	if err != nil {
		return err
	}
	files := l.files()
	for range refusedStarts {
		l.refused(r, args)
	}
	after, err := l.outside(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		l.Add(Honest, "the refused start changed what the broker has: %s", difference(before, after))
	}
	l.unchanged(files, l.files(), r.Writes)
	if err := mend(); err != nil {
		return fmt.Errorf("mend: %w", err)
	}
	l.Tally.Add(refusals, 1)
	return l.Finish(ctx)
}

// refused starts the worker and expects its refusal.
func (l *Life) refused(r Refusal, args []string) {
	w, err := l.Start("", args...)
	if err != nil {
		l.Add(ExitCode, "%v", err)
		return
	}
	if !w.Wait(ownerPatience) {
		l.Add(Honest, "a start with %s was not refused", r.Name)
		w.Kill()
		return
	}
	l.Ended(w)
	if w.Code() != refusedCode {
		l.Add(ExitCode, "a start with %s ended with %d, not %d: %s", r.Name, w.Code(), refusedCode, w.Ended())
	}
	said := false
	for _, x := range w.Lines() {
		said = said || strings.Contains(x.Text, r.Code)
	}
	if !said {
		l.Add(Logs, "the refusal of %s does not say %s: %s", r.Name, r.Code, w.Ended())
	}
}

// outside is what brokers have of the job: its transactions and the ends of its output.
func (l *Life) outside(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	err := l.Broker.admin(func(adm *kadm.Client) error {
		ts, err := adm.ListTransactions(ctx, nil, nil)
		if err != nil {
			return err
		}
		var ids []string
		for id := range ts {
			if strings.HasPrefix(id, "etl."+l.Job.Name+".") {
				ids = append(ids, id)
			}
		}
		ds, err := adm.DescribeTransactions(ctx, ids...)
		for _, d := range ds {
			out[d.TxnID] = fmt.Sprintf("%s %d/%d", d.State, d.ProducerID, d.ProducerEpoch)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, stable := range []bool{false, true} {
		ends, err := l.Broker.ends(ctx, stable, l.job.Outs()...)
		if err != nil {
			return nil, err
		}
		for s, end := range ends {
			out[fmt.Sprintf("%s/%d stable %v", s.topic, s.part, stable)] = fmt.Sprint(end)
		}
	}
	return out, nil
}

func difference(a, b map[string]string) string {
	var out []string
	for k, v := range b {
		if a[k] != v {
			out = append(out, fmt.Sprintf("%s: %q became %q", k, a[k], v))
		}
	}
	for k := range a {
		if _, ok := b[k]; !ok {
			out = append(out, k+" is gone")
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// files are the digests of all files of the job's storage and state.
func (l *Life) files() map[string]string {
	out := map[string]string{}
	_ = filepath.WalkDir(l.job.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(l.job.Dir, path)
		out[rel] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	return out
}

// unchanged compares files: nothing may be gone or differ, and what is new may only
// be the note of the attempt.
func (l *Life) unchanged(before, after map[string]string, writes bool) {
	for name, sum := range before {
		if after[name] != sum && !strings.Contains(name, "lock") {
			l.Add(Honest, "the refused start changed %s", name)
		}
	}
	entries := 0
	for name := range after {
		if _, ok := before[name]; ok || strings.Contains(name, "lock") {
			continue
		}
		if writes && strings.Contains(name, "/log/") {
			entries++
			continue
		}
		l.Add(Honest, "the refused start made %s", name)
	}
	if entries > refusedStarts {
		l.Add(Honest, "the refused start wrote %d entries of the log", entries)
	}
}

func nothing() error { return nil }

// retained are the ids of the retained checkpoints, newest first.
func (l *Life) retained(ctx context.Context) ([]string, error) {
	a, code, err := l.job.Tool(ctx, l.Binary, "checkpoints", "ls", l.job.File)
	if err != nil || code != 0 {
		return nil, fmt.Errorf("checkpoints ls: exit %d, %s, %w", code, a.Error.Message, err)
	}
	var listed struct {
		Checkpoints []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"checkpoints"`
	}
	if err := json.Unmarshal(a.Result, &listed); err != nil {
		return nil, err
	}
	var out []string
	for _, c := range listed.Checkpoints {
		if c.Status == "completed" {
			out = append(out, c.ID)
		}
	}
	return out, nil
}

func olderCheckpoint(ctx context.Context, l *Life) ([]string, func() error, error) {
	ids, err := l.retained(ctx)
	if err != nil || len(ids) < 2 {
		return nil, nil, fmt.Errorf("retained: %v, %w", ids, err)
	}
	return []string{"--from", ids[len(ids)-1]}, nothing, nil
}

func renamedUID(_ context.Context, l *Life) ([]string, func() error, error) {
	l.job.UID = "another"
	err := os.WriteFile(l.job.File, []byte(l.job.text()), 0o600)
	return nil, func() error {
		l.job.UID = ""
		return os.WriteFile(l.job.File, []byte(l.job.text()), 0o600)
	}, err
}

// missingObject takes an object of the newest checkpoint away.
func missingObject(ctx context.Context, l *Life) ([]string, func() error, error) {
	a, _, err := l.job.Tool(ctx, l.Binary, "checkpoints", "inspect", l.job.File)
	if err != nil {
		return nil, nil, err
	}
	objects, _ := filepath.Glob(filepath.Join(l.job.storage(), "objects", "*"))
	for _, o := range objects {
		if strings.Contains(string(a.Result), filepath.Base(o)) {
			away := filepath.Join(l.Dir, "away")
			return nil, func() error { return os.Rename(away, o) }, os.Rename(o, away)
		}
	}
	return nil, nil, fmt.Errorf("the newest checkpoint lists none of %d objects", len(objects))
}

// markerAhead puts a copy of the checkpoints into the place of newer ones, as a
// restored backup would.
func markerAhead(_ context.Context, l *Life) ([]string, func() error, error) {
	backup, kept := filepath.Join(l.Dir, "backup"), filepath.Join(l.Dir, "kept")
	rel, err := filepath.Rel(l.job.Dir, l.job.storage())
	if err != nil {
		return nil, nil, err
	}
	if err := os.CopyFS(filepath.Join(backup, rel), os.DirFS(l.job.storage())); err != nil {
		return nil, nil, err
	}
	w, err := l.Start("")
	if err != nil {
		return nil, nil, err
	}
	if !l.checkpoints(w, 3) {
		return nil, nil, fmt.Errorf("no checkpoints: %s", w.Ended())
	}
	w.Kill()
	l.Ended(w)
	if err := os.Rename(l.job.Dir, kept); err != nil {
		return nil, nil, err
	}
	mend := func() error {
		if err := os.RemoveAll(l.job.Dir); err != nil {
			return err
		}
		return os.Rename(kept, l.job.Dir)
	}
	return nil, mend, os.Rename(backup, l.job.Dir)
}

// foreignLineage starts the job beside an empty folder.
func foreignLineage(_ context.Context, l *Life) ([]string, func() error, error) {
	kept := filepath.Join(l.Dir, "kept")
	if err := os.Rename(l.job.Dir, kept); err != nil {
		return nil, nil, err
	}
	mend := func() error {
		if err := os.RemoveAll(l.job.Dir); err != nil {
			return err
		}
		return os.Rename(kept, l.job.Dir)
	}
	return nil, mend, os.Mkdir(l.job.Dir, 0o700)
}
