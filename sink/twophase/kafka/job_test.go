package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/internal/testservice"
	"etl/sink"
	"etl/stream"
)

var oldBroker testservice.Shared[*kafkatest.Server]

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Runner(oldBroker.Runner(m))) }

// eachBroker runs a test on everything that behaves differently.
func eachBroker(t *testing.T, f func(t *testing.T, j *job)) {
	t.Run("kfake", func(t *testing.T) { f(t, fakeJob(t)) })
	t.Run("kfake-tv1", func(t *testing.T) { f(t, fakeJob(t, kfake.MaxVersions(kversion.V3_9_0()))) })
	t.Run("kafka", func(t *testing.T) {
		f(t, realJob(t, kafkatest.Shared(t)))
	})
	t.Run("kafka-tv1", func(t *testing.T) {
		f(t, realJob(t, kafkatest.SharedAs(t, &oldBroker, kafkatest.Config{TransactionVersion: 1})))
	})
}

// realJob is a job whose transactions outlive the test also where it is slow, or its broker
// is away for a while: nobody passes the time there.
func realJob(t testing.TB, b *kafkatest.Broker) *job {
	j := newJob(t, b.Seeds(), b.Topic(t, 3))
	j.cfg.TransactionTimeout = 10 * time.Minute
	return j
}

func fakeJob(t testing.TB, opts ...kfake.Opt) *job { return fakeJobAs(t, nil, opts...) }

func fakeJobAs(t testing.TB, as *kafkaconn.SASL, opts ...kfake.Opt) *job {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "out")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	j := newJob(t, c.ListenAddrs(), "out")
	j.fake, j.cfg.Conn.SASL = c, as
	return j
}

// job is a source of the numbers 0, 1, 2..., a Kafka sink, and the part of an engine
// that a sink sees: it takes checkpoints, dies, and recovers in the order of the
// protocol. Row i has the key i%7.
type job struct {
	t     testing.TB
	fake  *kfake.Cluster
	world stream.World
	store *memstore.Store
	cfg   Config
	tasks int
	topic string

	attempt   *checkpoint.Attempt
	committer *Committer
	writers   []*Writer
	at        int                         // next number
	positions map[stream.CheckpointID]int // by published checkpoint
	open      []checkpoint.Committable    // not resolved
	permit    map[stream.CheckpointID]checkpoint.Permit
	n         uint32
	rejects   rejects
}

type rejects struct{ errs []error }

func (r *rejects) Reject(_ stream.Record, err error) { r.errs = append(r.errs, err) }

func newJob(t testing.TB, seeds []string, topic string) *job {
	j := &job{t: t, topic: topic, tasks: 2, world: stream.SystemWorld(slog.New(slog.DiscardHandler)), store: memstore.New(t.Name()),
		positions: map[stream.CheckpointID]int{}, permit: map[stream.CheckpointID]checkpoint.Permit{}}
	j.cfg = Config{Conn: kafkaconn.Config{SeedBrokers: seeds}, Topics: []string{topic}, Linger: NoLinger, Parallelism: 2, TransactionTimeout: time.Minute}
	t.Cleanup(j.crash)
	return j
}

const uid stream.UID = "out sink"

func (j *job) must(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// start recovers: V2 to V6, then opens the writers.
func (j *job) start() {
	j.t.Helper()
	j.must(j.tryStart())
}

func (j *job) tryStart() (err error) {
	ctx := j.t.Context()
	if j.attempt, err = checkpoint.OpenAttempt(ctx, j.store, checkpoint.AttemptOptions{World: j.world}); err != nil {
		return err
	}
	j.n, j.open, j.at = 0, nil, 0
	h := j.attempt.History()
	owners := h.Owners(j.attempt.Number())
	j.committer = NewCommitter(j.cfg)
	if err := j.committer.Open(ctx, sink.CommitEnv{World: j.world, Job: "job", Lineage: j.attempt.Lineage(), Attempt: j.attempt.Number(), UID: uid, Owners: owners,
		Fresh: h.Newest() == nil}); err != nil {
		return err
	}
	for sub := range j.tasks {
		if _, err := j.committer.Marker(ctx, sub); err != nil {
			return err
		}
	}
	var keep []checkpoint.Committable
	if m := h.Newest(); m != nil {
		keep = m.Committables
		if err := j.recover(ctx, m); err != nil {
			return err
		}
	}
	if err := j.committer.Fence(ctx, owners, keep); err != nil {
		return err
	}
	return j.openWriters(ctx)
}

func (j *job) recover(ctx context.Context, m *checkpoint.Metadata) error {
	permit, err := j.attempt.Restored(m.ID)
	if err != nil {
		return err
	}
	unresolved := j.attempt.History().Unresolved(m)
	probed, err := j.committer.Probe(ctx, unresolved, m.PublishedAt)
	if err != nil {
		return err
	}
	for i, p := range probed {
		if p.Status != sink.Open && p.Status != sink.Committed {
			return fmt.Errorf("checkpoint %s: %v %s", unresolved[i].Checkpoint, p.Status, p.Detail)
		}
	}
	lanes := map[stream.TaskID]stream.CheckpointID{}
	for _, c := range unresolved {
		if err := j.commit(ctx, permit, c); err != nil {
			return err
		}
		lanes[c.Lane()] = c.Checkpoint
	}
	j.at = j.positions[m.ID]
	return j.attempt.Confirm(ctx, lanes)
}

func (j *job) commit(ctx context.Context, permit checkpoint.Permit, c checkpoint.Committable) error {
	for {
		r, err := j.committer.Commit(ctx, permit, c)
		switch {
		case err != nil:
			return err
		case r.Outcome == sink.Done || r.Outcome == sink.Already:
			return nil
		case r.Outcome != sink.Transient:
			return sink.OutcomeError(c, r)
		}
	}
}

func (j *job) openWriters(ctx context.Context) error {
	j.writers = nil
	for sub := range j.tasks {
		w := NewWriter(j.cfg)
		j.writers = append(j.writers, w)
		env := stream.Env{World: j.world, Job: "job", Lineage: j.attempt.Lineage(), Attempt: j.attempt.Number(), UID: uid, Subtask: sub, Parallelism: j.tasks}
		if err := w.Open(ctx, env, nil); err != nil {
			return err
		}
	}
	return nil
}

// write sends the next n numbers, keyed so that a key always has one writer.
func (j *job) write(n int) {
	j.t.Helper()
	j.must(j.tryWrite(n))
}

func (j *job) tryWrite(n int) error {
	batches := make([]*stream.Batch, j.tasks)
	for i := range batches {
		batches[i] = stream.NewBatch(nil)
	}
	for range n {
		b := batches[j.at%7%j.tasks]
		b.Append(stream.Record{Key: b.Copy(strconv.AppendInt(nil, int64(j.at%7), 10)), Value: b.Copy(strconv.AppendInt(nil, int64(j.at), 10)), Timestamp: int64(j.at), Pos: -1, Offset: int64(j.at)})
		j.at++
	}
	var errs []error
	for i, b := range batches {
		errs = append(errs, j.writers[i].Write(j.t.Context(), b, &j.rejects))
	}
	return errors.Join(errs...)
}

func (j *job) prepare() (stream.CheckpointID, []sink.Pending) {
	j.t.Helper()
	j.n++
	id := stream.NewCheckpointID(j.attempt.Number(), j.n)
	var ps []sink.Pending
	for _, w := range j.writers {
		p, err := w.PrepareCommit(j.t.Context(), id, &j.rejects)
		j.must(err)
		ps = append(ps, p)
	}
	j.positions[id] = j.at
	return id, ps
}

func (j *job) finish(ps []sink.Pending) {
	j.t.Helper()
	j.must(j.tryFinish(ps))
}

func (j *job) tryFinish(ps []sink.Pending) error {
	for _, p := range ps {
		got, err := p.Finish(j.t.Context(), nil)
		if err != nil {
			return err
		}
		j.open = append(j.open, got.Committables...)
	}
	return nil
}

// publish makes id complete; committables of aborted checkpoints before it are listed.
func (j *job) publish(id stream.CheckpointID) {
	j.t.Helper()
	slices.SortFunc(j.open, checkpoint.CompareCommittables)
	m := &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "job", Lineage: j.attempt.Lineage(), ID: id, Kind: "periodic", Committables: slices.Clone(j.open)}
	p, err := j.attempt.Publish(j.t.Context(), m)
	j.must(err)
	j.permit[id] = p
	for _, w := range j.writers {
		w.Published(id)
	}
}

// resolve commits what id lists, lane by lane, and tells the writers.
func (j *job) resolve(id stream.CheckpointID, retired bool) {
	j.t.Helper()
	var rest []checkpoint.Committable
	for _, c := range j.open {
		if c.Checkpoint > id {
			rest = append(rest, c)
			continue
		}
		j.must(j.commit(j.t.Context(), j.permit[id], c))
	}
	j.open = rest
	for _, w := range j.writers {
		w.Resolved(id, retired)
	}
}

// publishes takes a checkpoint of n more rows up to its commits, of which it makes none.
func (j *job) publishes(n int) stream.CheckpointID {
	j.t.Helper()
	j.write(n)
	id, ps := j.prepare()
	j.finish(ps)
	j.publish(id)
	return id
}

// checkpoint takes one that succeeds.
func (j *job) checkpoint() stream.CheckpointID {
	j.t.Helper()
	id, ps := j.prepare()
	j.finish(ps)
	j.publish(id)
	j.resolve(id, true)
	return id
}

// crash ends the attempt as kill -9 would: nothing is ended, nothing is said.
func (j *job) crash() {
	for _, w := range j.writers {
		if err := w.Close(); err != nil {
			j.t.Error(err)
		}
	}
	if j.committer != nil {
		j.committer.Close()
	}
	j.writers, j.committer = nil, nil
}

// wantExactly checks that read_committed readers see the numbers below n once each, in
// order per key, and that nothing holds them back.
func (j *job) wantExactly(n int) {
	j.t.Helper()
	seen := map[int]int{}
	last := map[int]int{}
	for _, r := range j.read() {
		v, err := strconv.Atoi(string(r.Value))
		j.must(err)
		seen[v]++
		if prev, ok := last[v%7]; ok && v < prev {
			j.t.Errorf("key %d: %d comes after %d", v%7, v, prev)
		}
		last[v%7] = v
	}
	for v := range n {
		if seen[v] != 1 {
			j.t.Errorf("number %d was seen %d times", v, seen[v])
		}
		delete(seen, v)
	}
	if len(seen) > 0 {
		j.t.Errorf("%d numbers beyond %d were seen", len(seen), n)
	}
}

// read returns what read_committed readers see, and fails when something open holds
// them back from the end.
func (j *job) read() (rows []*kgo.Record) {
	j.t.Helper()
	cl, err := j.cfg.Conn.NewClient(kgo.ConsumeTopics(j.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(20*time.Millisecond), kgo.KeepControlRecords())
	j.must(err)
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(j.t.Context(), j.topic)
	j.must(err)
	at := map[int32]int64{}
	complete := func() (ok bool) {
		ok = true
		ends.Each(func(o kadm.ListedOffset) { ok = ok && at[o.Partition] >= o.Offset })
		return ok
	}
	ctx, cancel := context.WithTimeout(j.t.Context(), 2*time.Minute)
	defer cancel()
	for !complete() && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				rows = append(rows, r)
			}
		})
	}
	if !complete() {
		j.t.Errorf("readers are held back: %v of %v", at, ends)
	}
	return rows
}

// forgetMarkers does what a group coordinator does with offsets that expired.
func (j *job) forgetMarkers() {
	j.t.Helper()
	cl, err := j.cfg.Conn.NewClient()
	j.must(err)
	defer cl.Close()
	names := j.cfg.names("job", uid, j.attempt.Lineage())
	var groups []string
	for sub := range j.tasks {
		groups = append(groups, names.Group(sub))
	}
	_, err = kadm.NewClient(cl).DeleteGroups(j.t.Context(), groups...)
	j.must(err)
}
