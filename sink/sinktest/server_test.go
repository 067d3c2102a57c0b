package sinktest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"etl/stream"
)

// server is an outside in memory that knows transactions: they are put, prepared, and
// committed together with a marker, or aborted. It forgets what has ended.
type server struct {
	clock stream.Clock

	mu      sync.Mutex
	txns    map[txnName]*txn
	markers map[laneName]stream.CheckpointID
	fenced  map[sinkName]stream.Attempt // no attempt below may commit by itself
	sealed  map[txnName]bool            // attempts (no subtask, no checkpoint) that may prepare nothing
	rows    []Row                       // in commit order
	table   map[string]Row              // by key, for upserts
}

type sinkName struct {
	job     string
	sink    stream.UID
	lineage stream.Lineage
}

type laneName struct {
	sinkName
	subtask int
}

type txnName struct {
	laneName
	attempt stream.Attempt
	id      stream.CheckpointID
}

// String is the name that Inspect lists.
func (n txnName) String() string {
	return fmt.Sprintf("%s/%s/%s/%d/%d/%s", n.job, n.sink, n.lineage.Short(), n.attempt, n.subtask, n.id)
}

type txn struct {
	rows     []Row
	prepared bool
	deadline time.Time
}

func newServer(c stream.Clock) *server {
	return &server{clock: c, txns: map[txnName]*txn{}, markers: map[laneName]stream.CheckpointID{}, fenced: map[sinkName]stream.Attempt{},
		sealed: map[txnName]bool{}, table: map[string]Row{}}
}

// lock takes the lock and ends what is over its time.
func (s *server) lock() func() {
	s.mu.Lock()
	for n, t := range s.txns {
		if !t.deadline.IsZero() && !s.clock.Now().Before(t.deadline) {
			delete(s.txns, n)
		}
	}
	return s.mu.Unlock
}

func owner(n txnName) txnName {
	n.subtask, n.id = 0, stream.NoCheckpoint
	return n
}

func (s *server) put(n txnName, rows []Row, deadline time.Time) error {
	defer s.lock()()
	if s.sealed[owner(n)] {
		return stream.Errorf(stream.Fenced, "mem.fenced", "put", n.String(), "the attempt is fenced")
	}
	s.txns[n] = &txn{rows: rows, deadline: deadline}
	return nil
}

func (s *server) prepare(n txnName) error {
	defer s.lock()()
	t := s.txns[n]
	if t == nil {
		return stream.Errorf(stream.Restart, "mem.gone", "prepare", n.String(), "there is no such transaction")
	}
	t.prepared = true
	return nil
}

// answer is what the server says to a commit.
type answer uint8

const (
	committedNow answer = iota
	unknown
	tooLate // a later one of the lane is committed
)

// commit makes the rows visible together with the marker.
func (s *server) commit(n txnName) answer {
	defer s.lock()()
	t := s.txns[n]
	switch {
	case t == nil || !t.prepared:
		return unknown
	case s.markers[n.laneName] > n.id:
		return tooLate
	}
	delete(s.txns, n)
	s.show(t.rows, false)
	s.markers[n.laneName] = n.id
	return committedNow
}

// apply makes rows visible with their marker, once, unless the attempt is fenced.
func (s *server) apply(by stream.Attempt, n txnName, rows []Row) (fresh bool, err error) {
	defer s.lock()()
	if by < s.fenced[n.sinkName] {
		return false, stream.Errorf(stream.Fenced, "mem.fenced", "apply", n.String(), "attempt %d is fenced", by)
	}
	if s.markers[n.laneName] >= n.id {
		return false, nil
	}
	s.show(rows, false)
	s.markers[n.laneName] = n.id
	return true, nil
}

// show makes rows visible. With a guard an older row does not replace a newer one.
func (s *server) show(rows []Row, guard bool) {
	for _, r := range rows {
		s.rows = append(s.rows, r)
		if !guard || s.table[r.Key].N <= r.N {
			s.table[r.Key] = r
		}
	}
}

func (s *server) upsert(rows []Row, guard bool) {
	defer s.lock()()
	s.show(rows, guard)
}

// abort ends what pick says.
func (s *server) abort(pick func(txnName) bool) {
	defer s.lock()()
	for n := range s.txns {
		if pick(n) {
			delete(s.txns, n)
		}
	}
}

// seal lets an attempt prepare nothing more.
func (s *server) seal(n txnName) (again bool) {
	defer s.lock()()
	again = s.sealed[owner(n)]
	s.sealed[owner(n)] = true
	return again
}

func (s *server) fence(n sinkName, a stream.Attempt) {
	defer s.lock()()
	s.fenced[n] = max(s.fenced[n], a)
}

func (s *server) marker(n laneName) stream.CheckpointID {
	defer s.lock()()
	return s.markers[n]
}

// foreign reports whether another lineage of the sink has committed.
func (s *server) foreign(n sinkName) bool {
	defer s.lock()()
	for m := range s.markers {
		if m.job == n.job && m.sink == n.sink && m.lineage != n.lineage {
			return true
		}
	}
	return false
}

func (s *server) isOpen(n txnName) bool {
	defer s.lock()()
	t := s.txns[n]
	return t != nil && t.prepared
}

// list returns what is open or prepared, sorted.
func (s *server) list(pick func(txnName) bool) (names []txnName) {
	defer s.lock()()
	for n := range s.txns {
		if pick(n) {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b txnName) int { return cmp.Compare(a.String(), b.String()) })
	return names
}

func (s *server) read(table bool) (rows []Row) {
	defer s.lock()()
	if !table {
		return slices.Clone(s.rows)
	}
	for _, r := range s.table {
		rows = append(rows, r)
	}
	return rows
}
