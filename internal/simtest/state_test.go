package simtest

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/pipeline"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// checkStates restores every retained checkpoint into a scratch store and compares
// the counts with those of the input up to its offsets.
func (s *sim) checkStates(gone map[string]bool) {
	if !s.plan.shape.keyed() {
		return
	}
	w := stream.SystemWorld(slog.New(slog.DiscardHandler))
	w.FS, w.Entropy = s.disk, &entropy{r: s.rand("scratch")}
	st, err := filestore.Open(w, dataDir)
	if err != nil {
		s.fail("open storage: %v", err)
		return
	}
	h, err := checkpoint.ReadHistory(context.Background(), st)
	if err != nil {
		s.fail("read log: %v", err)
		return
	}
	for _, e := range h.Entries {
		if e.Metadata == nil || gone[e.Metadata.ID.String()] {
			continue
		}
		if err := s.checkState(w, st, e.Metadata); err != nil {
			s.fail("checkpoint %s: %v", e.Metadata.ID, err)
		}
	}
}

func (s *sim) checkState(w stream.World, st checkpoint.Storage, m *checkpoint.Metadata) error {
	if err := checkpoint.VerifyObjects(context.Background(), st, m); err != nil {
		return err
	}
	want := s.countsAt(m)
	op := transform.CountText(transform.OnChange)
	store, end, err := s.scratch(w, st, m, op.Descriptors())
	if err != nil {
		return err
	}
	defer end()
	run := op.New()
	if err := run.Open(context.Background(), transform.Env{Keyed: store}); err != nil {
		return err
	}
	b := stream.NewBatch(nil)
	defer b.Release()
	for k := range s.plan.keys {
		key := fmt.Append(nil, "k", k)
		b.Append(stream.Record{Group: key, Hash: stream.Hash(key)})
	}
	var got next
	if err := run.Process(context.Background(), b, &got); err != nil {
		return err
	}
	for key, n := range got.counts {
		if n != want[key]+1 {
			return fmt.Errorf("key %s has count %d, the input up to %v gives %d", key, n-1, m.Splits(), want[key])
		}
	}
	s.cov.add("check/states restored")
	return nil
}

// scratch restores a checkpoint into a store of its own that holds all key groups.
func (s *sim) scratch(w stream.World, st checkpoint.Storage, m *checkpoint.Metadata, ds []state.Descriptor) (state.Store, func(), error) {
	p := s.newProcess()
	p.base = newBaseDisk(s.plan.pebble)
	b, err := s.newBackend(p, pipeline.BackendEnv{World: w, Job: "sim", Lineage: m.Lineage, Attempt: 1 << 20, MaxParallelism: maxParallelism, Objects: checkpoint.NewObjects(st)})
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = b.(*countedBackend).Backend.Close() }
	r := state.Restored{ID: m.ID, Objects: checkpoint.NewObjects(st), Keyed: map[stream.UID][]state.Handle{}}
	for _, t := range m.Tasks {
		if t.UID == "count" {
			r.Keyed[t.UID] = append(r.Keyed[t.UID], t.Handles...)
		}
	}
	if err := b.Restore(context.Background(), r); err != nil {
		end()
		return nil, nil, err
	}
	store, err := b.Open(context.Background(), state.Spec{Task: stream.TaskID{UID: "count"}, KeyGroups: stream.RangeOf(0, 1, maxParallelism),
		MaxParallelism: maxParallelism, Descriptors: ds, Counters: &stream.Counters{}})
	if err != nil {
		end()
		return nil, nil, err
	}
	return store, end, nil
}

// countsAt counts the keys of the input up to the offsets of a checkpoint.
func (s *sim) countsAt(m *checkpoint.Metadata) map[string]int {
	upTo := map[int32]int64{}
	for _, splits := range m.Splits() {
		for _, sp := range splits {
			upTo[sp.Partition] = sp.NextOffset
		}
	}
	n := map[string]int{}
	for p, recs := range s.expectedValues() {
		for _, r := range recs {
			if r.Offset < upTo[p] {
				n[string(r.Key)]++
			}
		}
	}
	return n
}

// next collects the count that each key would get next.
type next struct{ counts map[string]int }

func (o *next) EmitBatch(b *stream.Batch) {
	o.counts = map[string]int{}
	for _, r := range b.Records {
		n, _ := strconv.Atoi(string(r.Value))
		o.counts[string(r.Key)] = n
	}
	b.Release()
}

func (o *next) Emit(stream.Record)                      {}
func (o *next) Batch() *stream.Batch                    { return stream.NewBatch(nil) }
func (o *next) Side(stream.Tag, stream.Record)          {}
func (o *next) SideBatch(_ stream.Tag, b *stream.Batch) { b.Release() }
func (o *next) Reject(stream.Record, error)             {}
