package sqltxn

import (
	"context"
	"fmt"
	"sync"

	"etl/internal/pgconn"
	"etl/stream"
)

// Seen is what this process has seen committed: the newest checkpoint of each subtask, in
// each book, as a pipeline file may have changed the schema since. A server that has less
// went back in time. The zero value has seen nothing.
type Seen struct {
	mu     sync.Mutex
	newest map[seenIn]stream.CheckpointID
}

type seenIn struct {
	book    Book
	subtask int
}

// Committed notes a commit.
func (s *Seen) Committed(b Book, subtask int, id stream.CheckpointID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		s.newest = map[seenIn]stream.CheckpointID{}
	}
	in := seenIn{b, subtask}
	s.newest[in] = max(s.newest[in], id)
}

// Newest reads the newest marker of a subtask, and declares the loss when it is behind what
// was seen: rows are gone that nobody would ask about again (I13). What was seen is taken
// before the server is asked, so that a commit between the two is no loss.
func (s *Seen) Newest(ctx context.Context, c *pgconn.Conn, b Book, subtask int) (stream.CheckpointID, error) {
	s.mu.Lock()
	had := s.newest[seenIn{b, subtask}]
	s.mu.Unlock()
	has, err := b.Newest(ctx, c, subtask)
	if err != nil || has >= had || markerNotRead() || markerOmitted() {
		return has, err
	}
	return has, stream.Errorf(stream.DataLoss, "postgres.forgotten", "commit", fmt.Sprintf("sink %s/%d", b.Sink, subtask),
		"the server had committed checkpoint %s, and the newest that it has now is %s: it lost its last commits in a failover, was restored from a backup, or somebody deleted the markers", had, has).
		WithFix("bring the server back to what it had; or start with --from a checkpoint and --accept-duplicates: the rows after it are written again")
}
