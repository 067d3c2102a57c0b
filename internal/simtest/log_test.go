package simtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// The log as the test reads it, by the byte table of docs/formats/log.md.
type (
	logEntry struct {
		Seq       uint64            `json:"seq"`
		Kind      string            `json:"kind"`
		At        time.Time         `json:"at"`
		Attempt   uint32            `json:"attempt"`
		Nonce     string            `json:"nonce"`
		Lineage   string            `json:"lineage"`
		Metadata  *logCheckpoint    `json:"metadata"`
		Confirmed map[string]string `json:"confirmed"`
		Abandoned string            `json:"abandoned"`
		Holder    *struct {
			Host string `json:"host"`
		} `json:"holder"`
	}
	logCheckpoint struct {
		ID               string            `json:"id"`
		PublishedAt      time.Time         `json:"published_at"`
		Tasks            []logTask         `json:"tasks"`
		Committables     []logCommittable  `json:"committables"`
		ConfirmedThrough map[string]string `json:"confirmed_through"`
	}
	logTask struct {
		Handles []struct {
			Object string `json:"object"`
		} `json:"handles"`
		Splits []struct {
			Partition  int32 `json:"partition"`
			NextOffset int64 `json:"next_offset"`
		} `json:"splits"`
	}
	logCommittable struct {
		Sink       string `json:"sink"`
		Subtask    int    `json:"subtask"`
		Checkpoint string `json:"checkpoint"`
		Payload    []byte `json:"payload"`
	}
)

const logHeader = 14 // magic 4, version 2, length 4, checksum 4

// number turns "attempt.n" into something that can be compared.
func number(id string) uint64 {
	var a, n uint64
	if _, err := fmt.Sscanf(id, "%d.%d", &a, &n); err != nil {
		return 0
	}
	return a<<32 | n
}

// readLog reads the job's log off the disk.
func (s *sim) readLog() (out []logEntry) {
	names, err := s.disk.List(dataDir + "/log")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nobody got that far
	}
	if err != nil {
		s.fail("the log: %v", err)
		return nil
	}
	for _, name := range names {
		if name[0] == '.' {
			continue
		}
		var e logEntry
		f, err := s.disk.Open(dataDir + "/log/" + name)
		if err == nil {
			var b []byte
			if b, err = io.ReadAll(f); err == nil && len(b) > logHeader {
				err = json.Unmarshal(b[logHeader:], &e)
			}
		}
		if err != nil {
			s.fail("log entry %s: %v", name, err)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b logEntry) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return out
}

// checkLog: one owner at a time, numbers that only rise, positions that never go
// back but for what was abandoned.
func (s *sim) checkLog() {
	log := s.readLog()
	gone := map[string]bool{}
	for _, e := range log {
		gone[e.Abandoned] = true
	}
	var owner uint32
	var newest uint64
	at := map[int32]int64{}
	for i, e := range log {
		if late(e, log[i+1:]) {
			continue
		}
		if e.Kind == "attempt" {
			if e.Attempt <= owner {
				s.fail("log entry %d: attempt %d follows attempt %d", e.Seq, e.Attempt, owner)
			}
			owner = e.Attempt
		}
		if e.Attempt != owner {
			s.fail("log entry %d (%s) is of attempt %d, while attempt %d owned the job", e.Seq, e.Kind, e.Attempt, owner)
		}
		if e.Lineage != log[0].Lineage {
			s.fail("log entry %d has lineage %s, the first has %s", e.Seq, e.Lineage, log[0].Lineage)
		}
		if e.Metadata == nil {
			continue
		}
		if id := number(e.Metadata.ID); id <= newest {
			s.fail("log entry %d: checkpoint %s is not above those before", e.Seq, e.Metadata.ID)
		} else {
			newest = id
		}
		if !gone[e.Metadata.ID] {
			s.checkPositions(e, at)
		}
	}
	s.checkStates(gone)
}

// late reports whether an attempt entry came into the past: its writer was stopped
// between reading the log and appending to it for so long that the place it expected
// was taken, dropped by retention and free again. It took nothing over, so another
// entry may carry its number, and nothing of its nonce follows.
func late(e logEntry, rest []logEntry) bool {
	again := false
	for _, r := range rest {
		if r.Nonce == e.Nonce {
			return false
		}
		again = again || r.Kind == "attempt" && r.Attempt <= e.Attempt
	}
	return e.Kind == "attempt" && again
}

// checkAbandoned: a published checkpoint is given up only because a transaction of it
// outlived its timeout. One that ended earlier was ended by the job itself.
func (s *sim) checkAbandoned() {
	log := s.readLog()
	confirmed := map[string]uint64{}
	metas := map[string]*logCheckpoint{}
	for _, e := range log {
		if e.Metadata != nil {
			metas[e.Metadata.ID] = e.Metadata
		}
		for lane, id := range e.Confirmed {
			confirmed[lane] = max(confirmed[lane], number(id))
		}
		m := metas[e.Abandoned]
		if m == nil || s.abandoned[e.Abandoned] {
			continue
		}
		s.abandoned[e.Abandoned] = true
		s.cov.add("check/abandoned checkpoints")
		if !m.outlived(e.At, confirmed) {
			s.fail("checkpoint %s was abandoned at %v though none of its transactions can have timed out", m.ID, e.At)
		}
	}
}

// outlived reports whether a transaction that is not resolved was older than its
// timeout.
func (m *logCheckpoint) outlived(at time.Time, confirmed map[string]uint64) bool {
	for i := range m.Committables {
		c := &m.Committables[i]
		if number(c.Checkpoint) > confirmed[c.lane()] && at.Sub(time.UnixMilli(c.txn().Start)) >= transactionTimeout {
			return true
		}
	}
	return false
}

func (s *sim) checkPositions(e logEntry, at map[int32]int64) {
	for _, t := range e.Metadata.Tasks {
		for _, sp := range t.Splits {
			if sp.NextOffset < at[sp.Partition] {
				s.fail("checkpoint %s: partition %d is at %d, after %d", e.Metadata.ID, sp.Partition, sp.NextOffset, at[sp.Partition])
			}
			at[sp.Partition] = sp.NextOffset
		}
	}
}
