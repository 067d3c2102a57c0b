package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"etl/checkpoint"
	"etl/config/kafka"
	"etl/pipeline"
	sinkkafka "etl/sink/twophase/kafka"
	"etl/stream"
)

// Replay says what is to be replayed, and where to.
type Replay struct {
	// Job is the name of the job whose dead letters they are.
	Job      string
	From     Letters
	Clusters []kafka.Cluster // of its sources
	Filter   Filter
	// To is the topic the records go to, on the cluster they came from; "" for the
	// topics they were read from.
	To string
	// Again begins at the oldest letter, whatever was replayed before.
	Again bool
	// Options are those of the replay's job, without its storage.
	Options pipeline.Options
	// Storage opens the storage of a job by its name.
	Storage func(ctx context.Context, job string) (checkpoint.Storage, error)
}

// Tally counts what became of the letters that this process has seen.
type Tally struct {
	// Replayed are written, LeftOut were not asked for, Made have no original record,
	// Others are no letters, Gone were deleted while the replay was at work.
	// Replayed is exact. The others are counted when they are read: an attempt that goes
	// back to its checkpoint counts those behind it again.
	Replayed, LeftOut, Made, Others, Gone atomic.Int64
}

// base is the name of the replay without its number. What was asked for is part of it,
// so that the same call finds what it has begun.
func (r *Replay) base() string {
	f := r.Filter
	components, codes := slices.Sorted(slices.Values(f.Components)), slices.Sorted(slices.Values(f.Codes))
	since := ""
	if !f.Since.IsZero() {
		since = f.Since.UTC().Format("2006-01-02T15:04:05.999Z")
	}
	text := strings.Join([]string{r.From.Sink(), r.From.Place(), strings.Join(components, ","), strings.Join(codes, ","), since, r.To}, "\n")
	return fmt.Sprintf("%.70s-replay-%08x", r.Job, uint32(stream.Hash([]byte(text))))
}

// Run is one job of a replay.
type Run struct {
	*pipeline.Job
	Tally *Tally
	// Continues says that it was begun by an earlier call that did not come to its end.
	Continues bool

	storage checkpoint.Storage
}

// Begin finds out which job the call means, and returns it ready to run: the one that
// was begun and is not finished, else the next. With Again the next one begins at the
// oldest letter, but only when the last one has told its end (Told): who repeats a call
// that was killed does not want everything twice.
func (r *Replay) Begin(ctx context.Context) (*Run, error) {
	var before *Run // the finished job before, as far as its storage
	done := reading{world: r.Options.World}
	for n := 1; ; n++ {
		st, err := r.Storage(ctx, r.name(n))
		if err != nil {
			return nil, err
		}
		h, err := checkpoint.ReadHistory(ctx, st)
		if err != nil {
			return nil, err
		}
		m := h.Newest()
		run := &Run{storage: st, Continues: m != nil}
		if m != nil && finished(h, m) {
			before = run
			done.before, done.ended = append(done.before, st), m.Splits()[lettersUID]
			continue
		}
		if m == nil && r.Again {
			done.before, done.ended = nil, nil
			if told, err := before.told(ctx); err != nil {
				return nil, err
			} else if !told {
				return before, r.prepare(ctx, before, r.name(n-1), done)
			}
		}
		return run, r.prepare(ctx, run, r.name(n), done)
	}
}

// name is that of the nth job.
func (r *Replay) name(n int) string { return fmt.Sprintf("%s-%d", r.base(), n) }

// prepare makes the job of a run, which begins behind the jobs that are done.
func (r *Replay) prepare(ctx context.Context, run *Run, name string, done reading) error {
	run.Tally = &Tally{}
	done.own, done.tally = run.storage, run.Tally
	g, err := r.graph(ctx, name, &done)
	if err != nil {
		return err
	}
	o := r.Options
	o.Storage, o.Listener = run.storage, counting(r.Options.Listener, run.Tally)
	run.Job, err = pipeline.NewJob(g, o)
	return err
}

// toldName is the object which says that the caller has seen the job's result.
const toldName = "replay/told"

// told reports whether the job's end was told; of no job it was.
func (r *Run) told(ctx context.Context) (bool, error) {
	if r == nil {
		return true, nil
	}
	_, err := r.storage.Get(ctx, toldName)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Told notes that the job has come to its end, and that whoever called has seen its
// result. A job without this note is taken for one that was cut off.
func (r *Run) Told(ctx context.Context) error {
	err := r.storage.PutIfAbsent(ctx, toldName, []byte("{}\n"))
	if errors.Is(err, checkpoint.ErrExists) {
		return nil
	}
	return err
}

// finished reports whether nothing is left to do for the job of m.
func finished(h *checkpoint.History, m *checkpoint.Metadata) bool {
	for _, splits := range m.Splits() {
		for i := range splits {
			if !splits[i].Finished() {
				return false
			}
		}
	}
	return len(h.Unresolved(m)) == 0
}

const lettersUID stream.UID = "letters"

// graph is the pipeline of the replay.
func (r *Replay) graph(ctx context.Context, name string, from *reading) (*pipeline.Graph, error) {
	src, err := r.From.source(ctx, from)
	if err != nil {
		return nil, err
	}
	b := pipeline.New(name)
	picked := b.Source(lettersUID, src, stream.LetterSchema).
		Apply("pick", &pick{filter: r.Filter, home: homes(r.Clusters), tally: from.tally})
	for i, c := range r.Clusters {
		cfg := sinkkafka.Config{Conn: c.Conn, Topics: dedup(c.Topics), Prefix: cmp.Or(r.From.prefix(), c.Prefix), Policy: r.Options.Policy, Encode: toItsPlace}
		if r.To != "" {
			cfg.Topics, cfg.Encode = []string{r.To}, nil
		}
		picked.Side(clusterTag(i)).Sink(sinkUID(i), sinkkafka.New(cfg.WithDefaults()))
	}
	return b.Graph()
}

func sinkUID(i int) stream.UID { return stream.UID("records-" + string(rune('a'+i))) }

func dedup(topics []string) []string {
	topics = slices.Clone(topics)
	slices.Sort(topics)
	return slices.Compact(topics)
}

// toItsPlace sends a record to the topic and the partition it was read from.
func toItsPlace(r *stream.Record, _ *stream.Batch, row *sinkkafka.Row) error {
	row.Topic, row.Partition = r.Topic, r.Partition
	return nil
}

// counting adds the rows of the sinks to a tally when they are committed.
func counting(l *stream.Listener, tally *Tally) *stream.Listener {
	out := stream.Listener{}
	if l != nil {
		out = *l
	}
	tell := out.Commit
	out.Commit = func(e stream.CommitEvent) {
		if e.Outcome == "committed" || e.Outcome == "already_committed" {
			tally.Replayed.Add(e.Rows)
		}
		if tell != nil {
			tell(e)
		}
	}
	return &out
}
