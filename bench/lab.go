package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

// partitions of the input and output topics.
const partitions = 4

// measurement is what a child reports.
type measurement struct {
	Work        string  `json:"work"`
	Records     int     `json:"records"`
	CPUPerRec   float64 `json:"cpu_ns_per_record"`
	RecPerSec   float64 `json:"records_per_second"`
	PeakMiB     int64   `json:"peak_mib"`
	Checkpoints int     `json:"checkpoints,omitempty"`
	// CommitP50 and CommitP99 are how long a checkpoint took from its permit until it was
	// committed.
	CommitP50 time.Duration `json:"commit_p50,omitempty"`
	CommitP99 time.Duration `json:"commit_p99,omitempty"`
}

// lab is the broker and what was measured on it.
type lab struct {
	o       options
	server  *kafkatest.Server
	client  *kgo.Client
	addr    string
	results map[string][]measurement
}

// prepare starts the broker and fills the input topic, once.
func (l *lab) prepare(ctx context.Context) error {
	if l.client != nil {
		return nil
	}
	l.addr = l.o.broker
	if l.addr == "" {
		s, err := kafkatest.Run(ctx, kafkatest.Config{Throughput: true, Heap: "1g"})
		if err != nil {
			return err
		}
		l.server, l.addr = s, s.Addr()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.addr), kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchMaxBytes(1<<20-100),
		kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	l.client = cl
	fmt.Printf("   loading %d records of %d bytes, %d keys, %d partitions\n", l.o.records, l.o.size, l.o.keys, partitions)
	if err := l.topic(ctx, "in"); err != nil {
		return err
	}
	return l.load(ctx)
}

// topic makes a topic anew, and returns when all its partitions have leaders.
func (l *lab) topic(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	adm := kadm.NewClient(l.client)
	for made := false; ; {
		if !made {
			_, _ = adm.DeleteTopics(ctx, name) // also one that was made though the answer was late
			_, err := adm.CreateTopic(ctx, partitions, 1, nil, name)
			made = err == nil
		}
		if made {
			ends, err := adm.ListEndOffsets(ctx, name)
			if err == nil && ends.Error() == nil && len(ends[name]) == partitions {
				return nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("make the topic %s: %w", name, context.Cause(ctx))
		}
	}
}

// load writes the input: JSON values with a key of the value's user.
func (l *lab) load(ctx context.Context) error {
	r := rand.New(rand.NewPCG(1, 2))
	pad := bytes.Repeat([]byte{'x'}, l.o.size+64)
	actions := []string{"buy", "cart", "fav"}
	var first error
	for i := range l.o.records {
		k := fmt.Appendf(nil, "user-%08d", r.IntN(l.o.keys))
		v := append(append([]byte(`{"user":"`), k...), `","action":"`...)
		v = append(append(v, actions[i%3]...), `","seq":`...)
		v = append(strconv.AppendInt(v, int64(i), 10), `,"pad":"`...)
		if d := l.o.size - len(v) - 2; d > 0 {
			v = append(v, pad[:d]...)
		}
		v = append(v, `"}`...)
		l.client.Produce(ctx, &kgo.Record{Topic: "in", Key: k, Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				first = err
			}
		})
	}
	if err := l.client.Flush(ctx); err != nil {
		return err
	}
	return first
}

func (l *lab) close() {
	if l.client != nil {
		l.client.Close()
	}
	if l.server != nil {
		_ = l.server.Stop()
	}
}

// measure runs a work in a process of its own, on an output topic of its own.
func (l *lab) measure(ctx context.Context, work string) (measurement, error) {
	if l.client != nil {
		if err := l.topic(ctx, "out"); err != nil {
			return measurement{}, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	args := []string{"child", "-work", work, "-broker", l.addr, "-records", strconv.Itoa(l.o.records)}
	if l.o.profile != "" {
		args = append(args, "-profile", l.o.profile+"/"+work+".pprof")
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOGC="+envOr("GOGC", "400"))
	out, err := cmd.Output()
	if err != nil {
		return measurement{}, fmt.Errorf("%s: %w", work, err)
	}
	var m measurement
	if err := json.Unmarshal(out, &m); err != nil {
		return m, fmt.Errorf("%s said %q: %w", work, out, err)
	}
	l.results[work] = append(l.results[work], m)
	return m, nil
}

func envOr(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

// with returns the lab with another number of records.
func (l *lab) with(records int) *lab {
	m := *l
	m.o.records = records
	return &m
}

// rounds measures the works in turn, so that all of them see the same weather.
func (l *lab) rounds(ctx context.Context, works ...string) error {
	for range l.o.rounds {
		for _, w := range works {
			m, err := l.measure(ctx, w)
			if err != nil {
				return err
			}
			fmt.Printf("   %-22s %7.0f ns CPU/record  %9.0f records/s  %4d MiB\n", w, m.CPUPerRec, m.RecPerSec, m.PeakMiB)
		}
	}
	return nil
}

// median returns the median of a figure over the rounds of a work.
func (l *lab) median(work string, f func(measurement) float64) float64 {
	var v []float64
	for _, m := range l.results[work] {
		v = append(v, f(m))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func cpu(m measurement) float64  { return m.CPUPerRec }
func rate(m measurement) float64 { return m.RecPerSec }

// ratio prints one figure of two works, with the aim.
func (l *lab) ratio(a, b string, f func(measurement) float64, what, aim string) {
	x, y := l.median(a, f), l.median(b, f)
	fmt.Printf("   %s of %s / %s = %.2f   (aim %s)\n", what, a, b, x/y, aim)
}

func copySection(ctx context.Context, l *lab) error {
	if err := l.rounds(ctx, "floor-copy", "floor-copy-pooled", "etl-copy"); err != nil {
		return err
	}
	l.ratio("etl-copy", "floor-copy", cpu, "CPU", "<= 0.90")
	l.ratio("etl-copy", "floor-copy-pooled", cpu, "CPU", "-")
	l.ratio("etl-copy", "floor-copy", rate, "rate", "-")
	return nil
}

func countSection(ctx context.Context, l *lab) error {
	if err := l.rounds(ctx, "floor-count", "etl-count"); err != nil {
		return err
	}
	l.ratio("etl-count", "floor-count", cpu, "CPU", "<= 0.60")
	l.ratio("etl-count", "floor-count", rate, "rate", "-")
	return nil
}

func modesSection(ctx context.Context, l *lab) error {
	if err := l.rounds(ctx, "etl-count-alo", "etl-count"); err != nil {
		return err
	}
	l.ratio("etl-count", "etl-count-alo", cpu, "CPU", "<= 1.05")
	l.ratio("etl-count", "etl-count-alo", rate, "rate", ">= 0.95")
	return nil
}
