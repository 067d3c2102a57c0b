package keyed_test

import (
	"bytes"
	"context"
	"fmt"

	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// shelf is a store on a ledge beside what must be in it, by table and key.
type shelf struct {
	*shop
	*keyed.Store
	groups stream.KeyGroupRange
	ledge  *ledge
	keys   []string
	live   map[string]string
	dirty  map[string]bool
}

// batch compares some keys of a table and changes them. Long values move, and need
// several slices to be copied out.
func (s *shelf) batch() {
	table := s.pick("table", len(tables))
	keys, refs := s.lookup(table, s.pick("from", shelfKeys), 1+s.pick("keys", shelfKeys))
	for i, k := range keys {
		s.compare(k, refs[i])
		switch s.pick("change", 4) {
		case 0:
			if _, ok := s.live[k]; ok {
				s.dirty[k] = true
			}
			delete(s.live, k)
			refs[i].Delete()
		case 1, 2:
			s.set(k, refs[i])
		}
	}
}

func (s *shelf) set(k string, r state.Ref) {
	s.values++
	v := bytes.Repeat([]byte{byte(s.values)}, s.long[s.pick("length", len(s.long))])
	copy(v, fmt.Sprint(s.values))
	s.live[k], s.dirty[k] = string(v), true
	r.Set(v)
}

// lookup finds n keys of the shelf. They are named by table and key.
func (s *shelf) lookup(table, from, n int) (names []string, refs []state.Ref) {
	var keys [][]byte
	var hashes []uint64
	for i := range min(n, len(s.keys)) {
		k := s.keys[(from+i)%len(s.keys)]
		names = append(names, fmt.Sprint(table, k))
		keys, hashes = append(keys, []byte(k)), append(hashes, stream.Hash([]byte(k)))
	}
	refs = make([]state.Ref, len(keys))
	s.must(s.State(table).Batch(context.Background(), keys, hashes, refs))
	return names, refs
}

func (s *shelf) compare(key string, r state.Ref) {
	got, ok := r.Get()
	want, exists := s.live[key]
	if ok != exists || string(got) != want {
		s.Fatalf("%s is %d bytes %.8q (%v), must be %d bytes %.8q (%v)", key, len(got), got, ok, len(want), want, exists)
	}
}

func (s *shelf) compareAll() {
	for table := range tables {
		keys, refs := s.lookup(table, 0, shelfKeys)
		for i, k := range keys {
			s.compare(k, refs[i])
		}
	}
}

// walk goes over what changed in the epoch. Where it stops, keys come back from the
// scratch, and some that were dirty change again.
func (s *shelf) walk() {
	table := s.pick("table", len(tables))
	seen := map[string]bool{}
	for pos, more := 0, true; more; {
		pos, more = s.State(table).Dirty(pos, func(key, value []byte, ok bool) bool {
			k := fmt.Sprint(table, string(key))
			want, exists := s.live[k]
			if seen[k] || !s.dirty[k] || ok != exists || string(value) != want {
				s.Fatalf("the walk gives %s as %d bytes %.8q (%v); seen %v, dirty %v", k, len(value), value, ok, seen[k], s.dirty[k])
			}
			seen[k] = true
			return s.pick("stop", 4) > 0
		})
		if !more || s.pick("between", 2) == 0 {
			continue
		}
		keys, refs := s.lookup(table, s.pick("from", shelfKeys), 1+s.pick("keys", 5))
		for i, k := range keys {
			if s.compare(k, refs[i]); s.dirty[k] && s.pick("again", 2) == 0 {
				s.set(k, refs[i])
			}
		}
	}
	for k := range s.dirty {
		if k[:1] == fmt.Sprint(table) && !seen[k] {
			s.Fatalf("the walk does not give %s", k)
		}
	}
}

func (s *shelf) slice() (more bool) {
	more, err := s.Slice()
	s.must(err)
	return more
}

func (s *shelf) drop() {
	s.must(s.Close())
	for len(s.ledge.offers) > 0 {
		s.ledge.apply(s.T, false)
	}
}
