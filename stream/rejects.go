package stream

import (
	"maps"
	"sync"
)

// Rejects count the records of a subtask that could not be processed, by what became
// of them and why. The zero value is ready. Its task adds, anybody may read.
type Rejects struct {
	mu sync.Mutex
	n  map[Reject]int64
}

// Reject is a kind of record that could not be processed.
type Reject struct {
	Action string // fail | skip | dead_letter
	Code   string // of the error, see RejectCode
}

const (
	// maxRejects bounds the kinds of one subtask: codes are few by contract, and those
	// of a program's own operators are not ours to trust.
	maxRejects = 64
	// codeOther stands for the codes beyond it.
	codeOther = "other"
)

// RejectCode is the stable code of an error, CodeRejected when it has none.
func RejectCode(err error) string {
	if code := CodeOf(err); code != "" {
		return code
	}
	return CodeRejected
}

// Add counts a record.
func (r *Rejects) Add(action, code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[Reject]int64{}
	}
	k := Reject{action, code}
	if _, known := r.n[k]; !known && len(r.n) >= maxRejects {
		k.Code = codeOther
	}
	r.n[k]++
}

// Counts returns the counts so far.
func (r *Rejects) Counts() map[Reject]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.n)
}
