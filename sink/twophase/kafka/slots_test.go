package kafka

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"etl/stream"
)

// model is what slots promise: who holds which, and what a slot may be handed out for.
type model struct {
	s        *slots
	limit    int
	next     uint32
	holding  []*slot                       // open
	prepared map[*slot]stream.CheckpointID // unresolved
	cooling  map[*slot]stream.CheckpointID // verified, perhaps listed
}

// take tries to get a slot without waiting.
func (m *model) take(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	sl, err := m.s.take(ctx)
	if err != nil {
		if len(m.holding)+len(m.prepared) < m.limit {
			t.Fatalf("no slot, with %d open and %d unresolved of %d", len(m.holding), len(m.prepared), m.limit)
		}
		return
	}
	if _, ok := m.prepared[sl]; ok {
		t.Fatalf("slot %d is handed out while its commit is unresolved", sl.n)
	}
	if id, ok := m.cooling[sl]; ok {
		if used := len(m.holding) + len(m.prepared) + len(m.cooling); used < m.limit {
			t.Fatalf("slot %d is handed out while it cools, with %d of %d in use", sl.n, used, m.limit)
		}
		for other, older := range m.cooling {
			if older < id {
				t.Fatalf("slot %d of %s is handed out before slot %d of %s", sl.n, id, other.n, older)
			}
		}
		delete(m.cooling, sl)
	}
	for _, h := range m.holding {
		if h == sl {
			t.Fatalf("slot %d is handed out twice", sl.n)
		}
	}
	m.holding = append(m.holding, sl)
}

func (m *model) pick(t *rapid.T) *slot {
	if len(m.holding) == 0 {
		t.Skip("nothing is open")
	}
	i := rapid.IntRange(0, len(m.holding)-1).Draw(t, "slot")
	sl := m.holding[i]
	m.holding = append(m.holding[:i:i], m.holding[i+1:]...)
	return sl
}

func (m *model) prepare(t *rapid.T) {
	sl := m.pick(t)
	m.next++
	id := stream.NewCheckpointID(1, m.next)
	m.s.prepare(sl, id, 1)
	m.prepared[sl] = id
}

func (m *model) resolve(t *rapid.T, retired bool) {
	id := stream.NewCheckpointID(1, rapid.Uint32Range(0, m.next).Draw(t, "id"))
	rows := m.s.resolve(id, retired)
	for sl, p := range m.prepared {
		if p <= id {
			rows--
			m.cooling[sl] = p
			delete(m.prepared, sl)
		}
	}
	if rows != 0 {
		t.Fatalf("resolve said %d rows too many", rows)
	}
	if !retired {
		return
	}
	for sl, p := range m.cooling {
		if p <= id {
			delete(m.cooling, sl)
		}
	}
}

// TestSlotLife plays checkpoints that are prepared, aborted (their slots stay prepared),
// resolved, repeated and late notices, and epochs without rows, in any order.
func TestSlotLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 10).Draw(t, "limit")
		m := &model{s: newSlots(limit), limit: limit, prepared: map[*slot]stream.CheckpointID{}, cooling: map[*slot]stream.CheckpointID{}}
		t.Repeat(map[string]func(*rapid.T){
			"take":     m.take,
			"prepare":  m.prepare,
			"giveBack": func(t *rapid.T) { m.s.giveBack(m.pick(t)) },
			"verified": func(t *rapid.T) { m.resolve(t, false) },
			"retired":  func(t *rapid.T) { m.resolve(t, true) },
			"": func(t *rapid.T) {
				if len(m.s.all) > limit {
					t.Fatalf("%d slots of %d", len(m.s.all), limit)
				}
			},
		})
	})
}

// A writer that waits for a slot goes on when the ledger resolves one.
func TestTakeWaitsForResolution(t *testing.T) {
	s := newSlots(1)
	sl, err := s.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.prepare(sl, stream.NewCheckpointID(1, 1), 1)
	got := make(chan *slot, 1)
	go func() {
		sl, _ := s.take(t.Context())
		got <- sl
	}()
	select {
	case <-got:
		t.Fatal("an unresolved slot was handed out")
	default:
	}
	s.resolve(stream.NewCheckpointID(1, 1), false)
	if again := <-got; again != sl {
		t.Errorf("%v", again)
	}
}
