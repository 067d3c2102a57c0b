package sinktest

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"

	"etl/checkpoint/memstore"
	"etl/stream"
)

// keysOfJob is the number of keys of a job; each has one writer at a time.
const keysOfJob = 7

// job is one life of a job: its storage, and a source of the rows 0, 1, 2... Jobs of
// one test share its outside, so the rows of each begin at a base of their own.
type job struct {
	r     *rig
	name  string
	uid   stream.UID
	store *memstore.Store
	base  int

	twin     stream.Lineage // given to its first start; zero: drawn as usual
	spoiled  bool           // some rows are bad
	lossy    bool           // something ends what is prepared
	written  int            // rows that any attempt has written
	starts   int
	position map[stream.CheckpointID]int // the next row, by checkpoint sealed
	limit    int                         // rows below belong to a published checkpoint
	rejected []int                       // rows that published checkpoints have rejected

	mu        sync.Mutex
	committed map[stream.TaskID]stream.CheckpointID // the newest commit of each lane
}

// isCommitted notes the end of a commit, from a lane's goroutine.
func (j *job) isCommitted(lane stream.TaskID, id stream.CheckpointID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.committed[lane] = max(j.committed[lane], id)
}

// job returns the first life of the job under test.
func (r *rig) job() *job { return r.otherJob(r.h.Job, sinkUID) }

// another returns a job with a name of its own.
func (r *rig) another() *job {
	return r.otherJob(fmt.Sprintf("%s-%d", r.h.Job, len(r.jobs)), sinkUID)
}

const sinkUID stream.UID = "out"

// jobRows is how far the rows of two jobs are apart.
const jobRows = 1_000_000

// otherJob returns another job, or another life of one, with storage of its own.
func (r *rig) otherJob(name string, uid stream.UID) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := &job{r: r, name: name, uid: uid, base: len(r.jobs) * jobRows, position: map[stream.CheckpointID]int{},
		committed: map[stream.TaskID]stream.CheckpointID{}}
	j.store = memstore.New(fmt.Sprintf("%s-%d", name, len(r.jobs)))
	r.jobs = append(r.jobs, j)
	return j
}

// entropy is what an attempt draws its nonce and the job's lineage from.
func (j *job) entropy() io.Reader {
	all := j.r.h.World.Entropy
	if j.twin.IsZero() {
		return all
	}
	const nonce = 16
	return io.MultiReader(io.LimitReader(all, nonce), bytes.NewReader(j.twin[:]))
}

// key returns the key of row n. Keys of two jobs differ.
func (j *job) key(n int) string { return fmt.Sprintf("k%d-%d", j.base/jobRows, n%keysOfJob) }

// subtask returns which of par subtasks writes a key.
func subtask(key string, par int) int { return int(stream.Hash([]byte(key)) % uint64(par)) }

// flaw is what is wrong with a row.
type flaw uint8

const (
	sound flaw = iota
	badAtWrite
	badInFinish
)

// flaw says what is wrong with row n: nothing, unless the job is spoiled and the sink's
// harness can make such rows.
func (j *job) flaw(n int) flaw {
	switch {
	case !j.spoiled:
	case n%13 == 5 && j.r.h.BadAtWrite != nil:
		return badAtWrite
	case n%11 == 3 && j.r.h.BadInFinish != nil:
		return badInFinish
	}
	return sound
}

// record makes the record of row n; its bytes are the batch's.
func (j *job) record(b *stream.Batch, n int) stream.Record {
	row := Row{Key: j.key(n), N: j.base + n}
	var rec stream.Record
	if j.r.h.Record != nil {
		rec = j.r.h.Record(b, row)
	} else {
		rec = stream.Record{Key: b.Copy([]byte(row.Key)), Value: b.Copy(strconv.AppendInt(nil, int64(row.N), 10)), Timestamp: j.r.now().UnixMilli()}
	}
	switch j.flaw(n) {
	case badAtWrite:
		j.r.h.BadAtWrite(b, &rec)
	case badInFinish:
		j.r.h.BadInFinish(b, &rec)
	}
	rec.Group = b.Copy([]byte(row.Key))
	rec.Hash = stream.Hash(rec.Group)
	rec.Topic, rec.Offset, rec.Pos = "rows", int64(n), -1
	return rec
}
