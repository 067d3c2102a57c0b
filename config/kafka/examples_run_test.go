package kafka_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/config"
	"etl/config/kafka"
	"etl/pipeline"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// TestExamples runs the examples on an in-process broker, from their files to their
// output: what their pages promise is what comes out.
func TestExamples(t *testing.T) {
	for _, tc := range []struct{ name, in, out, input, page string }{
		{"word-count", "text.lines", "text.word-counts", "input.txt", ""},
		{"user-behavior", "shop.behavior", "shop.user-behavior", "input.jsonl", "```json\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := "../../examples/" + tc.name + "/"
			input, page := read(t, dir+tc.input), read(t, dir+"README.md")
			want := []string{}
			if tc.page != "" {
				_, rest, _ := strings.Cut(page, tc.page)
				block, _, _ := strings.Cut(rest, "```")
				want = strings.Split(strings.TrimSpace(block), "\n")
			} else {
				_, rest, _ := strings.Cut(page, "the counts are: ")
				for _, pair := range strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), "."), ", ") {
					word, n, _ := strings.Cut(pair, " ")
					want = append(want, `{"word":"`+word+`","n":`+n+`}`)
				}
			}
			got := runExample(t, read(t, dir+"pipeline.yaml"), tc.in, tc.out, strings.Split(strings.TrimSuffix(input, "\n"), "\n"))
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// stores counts the storages: one of a name lives as long as the process.
var stores atomic.Int64

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// runExample produces the lines, runs the pipeline until it has read them, and
// returns the last committed value of each key, sorted.
func runExample(t *testing.T, text, in, out string, lines []string) []string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, in, out))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(out), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, line := range lines {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: in, Value: []byte(line)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// Bounded: it ends when it has read what is there, with a final checkpoint.
	runJob(t, ctx, strings.Replace(text, "    start: earliest\n", "    start: earliest\n    end: latest\n", 1), c.ListenAddrs()[0])
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	return lastValues(t, ctx, cl, ends)
}

func runJob(t *testing.T, ctx context.Context, text, broker string) {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	r.Storage("file", func(_ context.Context, _ stream.World, job string, _ config.StorageURL) (checkpoint.Storage, error) {
		return memstore.Open(fmt.Sprintf("%s %d", job, stores.Add(1))), nil
	})
	r.Backend("pebble", func(config.BackendSpec) func(pipeline.BackendEnv) (state.Backend, error) {
		return func(e pipeline.BackendEnv) (state.Backend, error) {
			return keyed.NewMemory(keyed.MemoryConfig{Lineage: e.Lineage, MaxParallelism: e.MaxParallelism}), nil
		}
	})
	l := &config.Loader{Registry: r, Outside: config.Outside{LookupEnv: func(name string) (string, bool) { return broker, name == "KAFKA_BROKERS" }}}
	job, ps := l.Load("pipeline.yaml", []byte(text))
	if job == nil {
		t.Fatal(ps)
	}
	w := stream.SystemWorld(nil)
	if err := job.Preflight(ctx, w).Err(); err != nil {
		t.Fatal(err)
	}
	o, err := job.Options(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	j, err := pipeline.NewJob(job.Graph, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// lastValues reads up to the last stable offsets.
func lastValues(t *testing.T, ctx context.Context, cl *kgo.Client, ends kadm.ListedOffsets) (values []string) {
	last := map[string]string{}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				last[string(r.Key)] = string(r.Value)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	for _, v := range last {
		values = append(values, v)
	}
	slices.Sort(values)
	return values
}
