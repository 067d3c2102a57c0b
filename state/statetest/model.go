package statetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"etl/state"
	"etl/stream"
)

const (
	keySpace    = 60
	maxParallel = 3
	keyGroups   = 8
	retain      = 3
)

// keyAt returns the i-th key of the model. Zeros, prefixes of each other, the
// empty key and long ones are among them.
func keyAt(i int) []byte {
	switch i % 6 {
	case 0:
		return binary.BigEndian.AppendUint32(nil, uint32(i))
	case 1:
		return bytes.Repeat([]byte{0}, i/6)
	case 2:
		return bytes.Repeat([]byte{'a'}, i/6)
	case 3:
		return append(bytes.Repeat([]byte{'a', 0}, i/6), 0xff)
	case 4:
		return bytes.Repeat([]byte{byte(i)}, 100+i*9)
	}
	return fmt.Appendf(nil, "key %d", i)
}

// picker chooses: rapid in tests, a seeded source in negative controls.
type picker func(label string, n int) int

// model is one run: the backend of the present attempt beside what it must hold.
type model struct {
	t    testing.TB
	f    Features
	pick picker
	calm int // how many times rarer things fail: bases are made where little does

	w        World
	ctx      context.Context
	cancel   context.CancelFunc
	backend  state.Backend
	uploader state.Uploader
	tasks    []*task
	number   uint32 // of the last checkpoint in the attempt
	value    uint64
	pending  []*pending
	retained []*published
	total    state.BackendStats // of the attempts that are over
}

// task is one subtask with what its store must hold.
type task struct {
	id       stream.TaskID
	groups   stream.KeyGroupRange
	store    state.Store
	live     map[string]string
	dirty    map[string]bool
	keys     []int
	queue    []*sealed
	running  chan persisted // of queue[0], nil when none runs
	sliceSum int
}

// sealed is a snapshot of a task.
type sealed struct {
	of   *pending
	snap state.Snapshot
	want map[string]string
}

type persisted struct {
	handles []state.Handle
	err     error
}

// pending is a checkpoint under way.
type pending struct {
	id      stream.CheckpointID
	open    int            // tasks that have not persisted
	taken   map[*task]bool // those that have snapshots
	aborted bool
	handles []state.Handle
	want    map[string]string
}

// published is a checkpoint that must be restorable.
type published struct {
	id      stream.CheckpointID
	handles []state.Handle
	want    map[string]string
}

func newModel(t testing.TB, f Features, pick picker) *model {
	m := &model{t: t, f: f, pick: pick}
	m.w = World{Lineage: stream.Lineage{1, 2, 3}, Storage: NewStorage(), MaxParallelism: keyGroups}
	m.w.Budget = []int64{1, 8 << 20, 64 << 20}[pick("budget", 3)]
	m.w.Full = pick("full", 4) == 0
	m.w.Compact = pick("compact", 2) == 0
	m.calm = 1 + 5*pick("calm", 2)
	if f.NewDisk != nil {
		m.w.Disk = f.NewDisk(t)
	}
	return m
}

// run makes steps random steps. Its error says what differs.
func (m *model) run() (err error) {
	defer func() { err = errors.Join(err, m.stop()) }()
	if err := m.start(nil, 1+m.pick("parallelism", maxParallel)); err != nil {
		return err
	}
	steps := m.f.Steps
	if steps == 0 {
		steps = 60
	}
	for range steps {
		if err := m.step(); err != nil {
			return err
		}
	}
	return m.crash()
}

func (m *model) step() error {
	err := m.act()
	if m.f.Wait != nil {
		m.f.Wait()
	}
	return errors.Join(err, m.backend.Err())
}

func (m *model) act() error {
	t := m.tasks[m.pick("task", len(m.tasks))]
	steps := 50
	if m.f.Step != nil {
		steps += 20
	}
	switch s := m.pick("step", steps); {
	case s < 15:
		return m.batch(t)
	case s < 19:
		return m.barrier(t)
	case s < 24:
		return m.slice(t)
	case s < 29:
		return m.persist(t)
	case s < 32:
		return m.await(t)
	case s < 34:
		return m.walkDirty(t)
	case s < 36:
		return m.verifyElsewhere()
	case s < 39:
		return m.settle()
	case s < 48:
		return m.round()
	case s >= 68:
		m.w.Storage.Hold(m.pick("hold", 2) == 0 && !m.w.Full) // a copy for one checkpoint is made by the step itself
		return nil
	case s >= 50:
		m.f.Step(m.backend)
		return nil
	}
	return m.crash()
}

// fails chooses one of n, and less often in a calm run.
func (m *model) fails(label string, n int) bool { return m.pick(label, n*m.calm) == 0 }

func (m *model) settle() error {
	m.w.Storage.Hold(false)
	if m.f.Settle != nil {
		m.f.Settle(m.backend)
	}
	return m.backend.Err()
}

// round takes every task through a whole checkpoint, with batches in between.
func (m *model) round() error {
	for _, step := range []func(*task) error{m.barrier, m.batch, m.persist, m.await} {
		for _, t := range m.tasks {
			if err := step(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// start begins an attempt from a checkpoint, nil for none.
func (m *model) start(from *published, parallelism int) error {
	m.w.Attempt++
	m.number, m.pending, m.tasks = 0, nil, nil
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.uploader = m.w.Storage.Uploader(m.w.Attempt)
	m.backend = m.f.New(m.t, &m.w)
	stores, err := restore(m.ctx, m.backend, &m.w, from, parallelism, Descriptor)
	if err != nil {
		return fmt.Errorf("attempt %d: %w", m.w.Attempt, err)
	}
	m.tasks = stores
	return nil
}

// verifyElsewhere restores a retained checkpoint on an empty disk.
func (m *model) verifyElsewhere() error {
	if len(m.retained) == 0 {
		return nil
	}
	p := m.retained[m.pick("retained", len(m.retained))]
	w := m.w
	w.Attempt += 1000
	if m.f.NewDisk != nil {
		w.Disk = m.f.NewDisk(m.t)
	}
	b := m.f.New(m.t, &w)
	tasks, err := restore(context.Background(), b, &w, p, 1+m.pick("parallelism", maxParallel), Descriptor)
	if err != nil {
		err = fmt.Errorf("retained checkpoint %s on an empty disk: %w", p.id, err)
	}
	return errors.Join(err, closeAll(tasks, b))
}

func closeAll(tasks []*task, b state.Backend) (err error) {
	for _, t := range tasks {
		if t.store != nil {
			err = errors.Join(err, t.store.Close())
		}
	}
	return errors.Join(err, b.Close())
}

// stop ends the attempt without a crash.
func (m *model) stop() error {
	if m.backend == nil {
		return nil
	}
	m.cancel()
	for _, t := range m.tasks {
		if t.running != nil {
			<-t.running
		}
		for _, s := range t.queue {
			s.snap.Release(false)
		}
	}
	add(&m.total, m.backend.Stats())
	err := closeAll(m.tasks, m.backend)
	m.backend = nil
	return err
}

// crash ends the attempt in the middle and begins another from a retained
// checkpoint: mostly the newest. An older one makes all later ones void.
func (m *model) crash() error {
	if m.f.Crash != nil && m.pick("kill", 4) > 0 {
		after := m.f.Crash(m.t, m.w.Disk)
		if err := m.stop(); err != nil {
			return err
		}
		m.w.Disk = after
	} else if err := m.stop(); err != nil {
		return err
	}
	var from *published
	if l := len(m.retained); l > 0 {
		i := l - 1
		if m.pick("older", 3) == 0 {
			i = m.pick("retained", l)
		}
		before := m.listed()
		from, m.retained = m.retained[i], m.retained[:i+1]
		m.w.Storage.Keep(before, m.listed())
	}
	p := 1 + m.pick("parallelism", maxParallel)
	if len(m.tasks) > 0 && m.pick("rescale", 3) > 0 {
		p = len(m.tasks)
	}
	return m.start(from, p)
}

func add(total *state.BackendStats, s state.BackendStats) {
	total.Materializations += s.Materializations
	total.SegmentsReplayed += s.SegmentsReplayed
	total.EntriesReplayed += s.EntriesReplayed
	total.BasesReused += s.BasesReused
	total.BasesDiscarded += s.BasesDiscarded
	total.Spilled += s.Spilled
	total.BaseReads += s.BaseReads
}
