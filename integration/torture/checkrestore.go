package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// scratchRecords are written after the job has stopped, for scratch jobs to read:
// enough to touch every key again.
const scratchRecords = 150

// checkRestorable verifies every retained checkpoint and restores it into a scratch
// job, which must go on exactly where the checkpoint stands.
func (l *Life) checkRestorable(ctx context.Context) error {
	a, code, err := l.job.Tool(ctx, l.Binary, "checkpoints", "ls", l.job.File)
	if err != nil || code != 0 {
		return fmt.Errorf("checkpoints ls: exit %d, %s, %w", code, a.Error.Message, err)
	}
	var listed struct {
		Checkpoints []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"checkpoints"`
	}
	if err := json.Unmarshal(a.Result, &listed); err != nil {
		return err
	}
	if err := l.feed.Burst(ctx, scratchRecords); err != nil {
		return err
	}
	n := 0
	for _, c := range listed.Checkpoints {
		if c.Status != "completed" {
			continue
		}
		n++
		if err := l.restore(ctx, c.ID, n); err != nil {
			return fmt.Errorf("scratch job from %s: %w", c.ID, err)
		}
	}
	if n == 0 {
		l.Add(Restorable, "no checkpoint is retained")
	}
	return nil
}

// restore runs a scratch job from one checkpoint: same name and input, a copy of
// the checkpoints, topics and transactional ids of its own.
func (l *Life) restore(ctx context.Context, id string, n int) error {
	a, code, err := l.job.Tool(ctx, l.Binary, "checkpoints", "verify", l.job.File, id)
	if err != nil || code != 0 {
		l.Add(Restorable, "checkpoint %s: exit %d, %s (%v)", id, code, a.Error.Message, err)
		return nil
	}
	from, err := l.offsets(ctx, id)
	if err != nil {
		return err
	}
	c := l.Job
	c.Prefix, c.SinkTopic = fmt.Sprint("scratch", n), fmt.Sprintf("%s.scratch%d", c.Name, n)
	j, err := NewJob(l.Broker, filepath.Join(l.Dir, fmt.Sprint("scratch", n)), c)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(l.job.Dir, l.job.storage())
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(j.Dir, rel), os.DirFS(l.job.storage())); err != nil {
		return err
	}
	topics := j.topics(l.Outs)
	delete(topics, j.In())
	if err := l.Broker.CreateTopics(ctx, topics); err != nil {
		return err
	}
	return l.goOn(ctx, j, id, from)
}

// goOn lets the scratch job read to the end of the input, and checks its rows.
func (l *Life) goOn(ctx context.Context, j *Job, id string, from map[int32]int64) error {
	w, err := j.Start(Start{Binary: l.Binary, Args: []string{"--from", id}})
	if err != nil {
		return err
	}
	defer w.Kill()
	if err := j.AwaitRead(ctx, w); err != nil {
		l.Add(Restorable, "checkpoint %s: %v", id, err)
		return nil
	}
	w.Signal(syscall.SIGTERM)
	if !w.Wait(ownerPatience) || w.Code() != 0 {
		l.Add(Restorable, "checkpoint %s: the scratch job ended with %s", id, w.Ended())
		return nil
	}
	var v Verdict
	if _, err := j.audited(ctx, &v, l.maker, NewTally(), from); err != nil {
		return err
	}
	if !v.OK() {
		l.Add(Restorable, "checkpoint %s, from offsets %v: %s", id, from, v)
	}
	l.Tally.Add(restored, 1)
	return nil
}

// offsets are where a checkpoint stands in the input, the newest without an id.
func (l *Life) offsets(ctx context.Context, id string) (map[int32]int64, error) {
	words := []string{"checkpoints", "inspect", l.job.File}
	if id != "" {
		words = append(words, id)
	}
	a, code, err := l.job.Tool(ctx, l.Binary, words...)
	if err != nil || code != 0 {
		return nil, fmt.Errorf("checkpoints inspect: exit %d, %s, %w", code, a.Error.Message, err)
	}
	var m struct {
		Tasks []struct {
			Splits []struct {
				Partition int32 `json:"partition"`
				Next      int64 `json:"next_offset"`
			} `json:"splits"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal(a.Result, &m); err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, t := range m.Tasks {
		for _, s := range t.Splits {
			out[s.Partition] = s.Next
		}
	}
	if len(out) != partitions {
		return nil, fmt.Errorf("checkpoint %s has positions of %d partitions", id, len(out))
	}
	return out, nil
}
