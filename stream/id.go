package stream

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// UID names a component of a job for good: its state and its transactions are
// stored under it. It is the component's name in the pipeline file, or its uid.
type UID string

// Attempt counts the starts of a job, from 1, strictly increasing: the
// contested log decides who gets which (I4).
type Attempt uint32

// CheckpointID names a checkpoint: attempt << 32 | n, shown as "3.17". Ids are
// unique and increasing over all attempts by construction. They are ordered
// only within one job; never compute with them, make them with [NewCheckpointID].
type CheckpointID uint64

// NoCheckpoint is the id of nothing. No attempt is 0, so no checkpoint has it.
const NoCheckpoint CheckpointID = 0

// NewCheckpointID returns the id of the n-th checkpoint of attempt a.
func NewCheckpointID(a Attempt, n uint32) CheckpointID {
	return CheckpointID(uint64(a)<<32 | uint64(n))
}

// Attempt returns the attempt that made the checkpoint.
func (id CheckpointID) Attempt() Attempt { return Attempt(id >> 32) }

// N returns the number of the checkpoint within its attempt.
func (id CheckpointID) N() uint32 { return uint32(id) }

// String returns "attempt.n", or "-" for NoCheckpoint.
func (id CheckpointID) String() string {
	if id == NoCheckpoint {
		return "-"
	}
	return strconv.FormatUint(uint64(id.Attempt()), 10) + "." + strconv.FormatUint(uint64(id.N()), 10)
}

// ParseCheckpointID reads what [CheckpointID.String] writes.
func ParseCheckpointID(s string) (CheckpointID, error) {
	if s == "-" {
		return NoCheckpoint, nil
	}
	a, n, ok := strings.Cut(s, ".")
	av, errA := strconv.ParseUint(a, 10, 32)
	nv, errN := strconv.ParseUint(n, 10, 32)
	if !ok || errA != nil || errN != nil || av == 0 {
		return 0, fmt.Errorf("checkpoint id %q is not of the form attempt.n, for example 3.17", s)
	}
	return NewCheckpointID(Attempt(av), uint32(nv)), nil
}

// MarshalText and UnmarshalText make the id readable in JSON.
func (id CheckpointID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *CheckpointID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseCheckpointID(string(b))
	return err
}

// Lineage is the identity a job gets at its first start with empty storage: a
// version 4 UUID. It is part of every outside name, so that two lives of one
// job name can never finish each other's transactions (I12).
type Lineage [16]byte

// NewLineage draws a lineage from r.
func NewLineage(r io.Reader) (l Lineage, err error) {
	if _, err = io.ReadFull(r, l[:]); err != nil {
		return l, err
	}
	l[6] = l[6]&0x0f | 0x40
	l[8] = l[8]&0x3f | 0x80
	return l, nil
}

// IsZero reports whether l is no lineage.
func (l Lineage) IsZero() bool { return l == Lineage{} }

// Short returns the first 8 hex digits: the part that outside names carry.
func (l Lineage) Short() string { return hex.EncodeToString(l[:4]) }

// String returns the usual form of a UUID.
func (l Lineage) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", l[0:4], l[4:6], l[6:8], l[8:10], l[10:])
}

// MarshalText writes the usual form of a UUID.
func (l Lineage) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the usual form of a UUID.
func (l *Lineage) UnmarshalText(b []byte) error {
	d, err := hex.DecodeString(strings.ReplaceAll(string(b), "-", ""))
	if err != nil || len(d) != len(l) {
		return fmt.Errorf("lineage %q is not a UUID", b)
	}
	copy(l[:], d)
	return nil
}

// TaskID names one subtask of one component.
type TaskID struct {
	UID     UID `json:"uid"`
	Subtask int `json:"subtask"`
}

// String returns "uid/subtask", "-" for no task.
func (t TaskID) String() string {
	if t.UID == "" {
		return "-"
	}
	return string(t.UID) + "/" + strconv.Itoa(t.Subtask)
}

// CompareTasks orders by UID, then by subtask.
func CompareTasks(a, b TaskID) int {
	return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Subtask, b.Subtask))
}
