package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"etl/sink/idempotent"
	"etl/stream"
)

// token is what a checkpoint remembers of a subtask: the key that says how far its rows
// came.
type token struct {
	Key        string              `json:"key"`
	Checkpoint stream.CheckpointID `json:"checkpoint"`
}

// keptKey is that key: job, sink, subtask and lineage.
func keptKey(env stream.Env) string {
	return fmt.Sprintf("etl:kept:%s:%s:%d:%s", env.Job, env.UID, env.Subtask, env.Lineage.Short())
}

var _ idempotent.Keeper = (*store)(nil)

// Keep notes, behind all rows up to a checkpoint, that they were written.
func (s *store) Keep(ctx context.Context, id stream.CheckpointID) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.client.EvalSha(ctx, keepSHA, []string{s.kept}, strconv.FormatUint(uint64(id), 10)).Err(); err != nil {
		return nil, s.explain(ctx, err, "note checkpoint")
	}
	if err := s.sameRun(); err != nil { // after the note: it went to this run, and so did the rows
		return nil, err
	}
	return json.Marshal(token{Key: s.kept, Checkpoint: id})
}

// Kept looks whether the server still has what the restored checkpoint says.
func (s *store) Kept(ctx context.Context, tokens [][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for _, b := range tokens {
		var t token
		if err := json.Unmarshal(b, &t); err != nil {
			return stream.Errorf(stream.RestoreRefused, "redis.state", "read the sink's state", "", "%w", err)
		}
		text, err := s.client.Get(ctx, t.Key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return s.explain(ctx, err, "look for checkpoint")
		}
		n, _ := strconv.ParseUint(text, 10, 64) // 0 for none
		if has := stream.CheckpointID(n); has < t.Checkpoint {
			found := "nothing of this job"
			fix := "start anew, or with --from a savepoint that is older than the loss"
			if has != stream.NoCheckpoint {
				found, fix = "rows up to checkpoint "+has.String(), "start with --from a checkpoint up to "+has.String()+": its rows and those after it are written again"
			}
			return stream.Errorf(stream.DataLoss, "redis.forgotten", "look for checkpoint", s.cfg.Conn.System(),
				"it has forgotten what it had acknowledged: the rows up to checkpoint %s were written, and it has %s (%s)", t.Checkpoint, found, t.Key).
				WithFix("%s; then set appendonly yes and appendfsync always", fix)
		}
	}
	return nil
}
