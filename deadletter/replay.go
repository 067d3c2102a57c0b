package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/checkpoint"
	"etl/config/kafka"
	"etl/internal/kafkaconn"
	"etl/pipeline"
	sinkkafka "etl/sink/twophase/kafka"
	sourcekafka "etl/source/kafka"
	"etl/stream"
)

// Replay says what is to be replayed, and where to.
type Replay struct {
	// Job is the name of the job whose dead letters they are.
	Job      string
	From     kafka.Letters
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
	// Others are no letters.
	Replayed, LeftOut, Made, Others atomic.Int64
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
	text := strings.Join([]string{r.From.Sink, r.From.Topic, strings.Join(components, ","), strings.Join(codes, ","), since, r.To}, "\n")
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
	var before *Run         // the finished job before, as far as its storage
	var done []stream.Split // up to where the jobs before have come
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
			before, done = run, m.Splits()[lettersUID]
			continue
		}
		if m == nil && r.Again {
			done = nil
			if told, err := before.told(ctx); err != nil {
				return nil, err
			} else if !told {
				return before, r.prepare(ctx, before, r.name(n-1), nil)
			}
		}
		return run, r.prepare(ctx, run, r.name(n), done)
	}
}

// name is that of the nth job.
func (r *Replay) name(n int) string { return fmt.Sprintf("%s-%d", r.base(), n) }

// prepare makes the job of a run.
func (r *Replay) prepare(ctx context.Context, run *Run, name string, done []stream.Split) error {
	g, tally, err := r.graph(ctx, name, done)
	if err != nil {
		return err
	}
	o := r.Options
	o.Storage, o.Listener = run.storage, counting(r.Options.Listener, tally)
	run.Tally = tally
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
func (r *Replay) graph(ctx context.Context, name string, done []stream.Split) (*pipeline.Graph, *Tally, error) {
	src := sourcekafka.Config{Cluster: r.From.Conn, Topics: []string{r.From.Topic}, End: sourcekafka.Latest}
	if len(done) > 0 {
		var err error
		src.Start = sourcekafka.Exact
		if src.StartOffsets, err = r.behind(ctx, done); err != nil {
			return nil, nil, err
		}
	}
	tally := &Tally{}
	b := pipeline.New(name)
	picked := b.Source(lettersUID, sourcekafka.New(src.WithDefaults()), stream.LetterSchema).
		Apply("pick", &pick{filter: r.Filter, home: homes(r.Clusters), tally: tally})
	for i, c := range r.Clusters {
		cfg := sinkkafka.Config{Conn: c.Conn, Topics: dedup(c.Topics), Prefix: r.From.Prefix, Policy: r.Options.Policy, Encode: toItsPlace}
		if r.To != "" {
			cfg.Topics, cfg.Encode = []string{r.To}, nil
		}
		picked.Side(clusterTag(i)).Sink(sinkUID(i), sinkkafka.New(cfg.WithDefaults()))
	}
	g, err := b.Graph()
	return g, tally, err
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

// behind says where the letters begin that no job before has read: partitions that are
// new, or whose oldest letters have been deleted since, at their beginning.
func (r *Replay) behind(ctx context.Context, done []stream.Split) (sourcekafka.Offsets, error) {
	conn := r.From.Conn
	if conn.Dial == nil {
		conn.Dial = r.Options.World.Dial
	}
	cl, err := conn.NewClient()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, r.From.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, kafkaconn.Explain(err, "find the oldest letters", kafkaconn.Access{Kind: kafkaconn.Topic, Name: r.From.Topic, Operation: "DESCRIBE"})
	}
	out := map[int32]int64{}
	starts.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	for i := range done {
		if from, ok := out[done[i].Partition]; ok {
			out[done[i].Partition] = max(from, done[i].NextOffset)
		}
	}
	return sourcekafka.Offsets{r.From.Topic: out}, nil
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
