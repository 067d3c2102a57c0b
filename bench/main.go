// Command bench measures what the engine costs, each figure beside its floor from
// the same run on the same real Kafka: a bare franz-go loop for throughput, a plain
// Go map for state. Machines differ and are noisy, so what it reports are CPU per
// record and ratios; rates are there to be looked at.
//
//	go run ./bench                  all of it, a few minutes
//	go run ./bench -short           fewer records, one round
//	go run ./bench -only copy,count
//
// Every measurement is a process of its own (this program with "child"), so that
// its CPU time is its own; broker and database are other processes. Only the last two thirds
// of the records count; of a sink with checkpoints, all but the first one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options of one run.
type options struct {
	records int
	rounds  int
	keys    int
	size    int
	only    string
	broker  string
	profile string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		child(os.Args[2:])
		return
	}
	o := options{}
	short := flag.Bool("short", false, "fewer records, one round")
	flag.IntVar(&o.records, "records", 3_000_000, "records of the throughput runs")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; the median is reported")
	flag.IntVar(&o.keys, "keys", 1_000_000, "different keys")
	flag.IntVar(&o.size, "size", 100, "bytes of a value")
	flag.StringVar(&o.only, "only", "", "a comma-separated choice of "+strings.Join(names(), ", "))
	flag.StringVar(&o.broker, "broker", "", "host:port of a Kafka to use; default: one is started")
	flag.StringVar(&o.profile, "profile", "", "write CPU profiles of the children into this folder")
	flag.Parse()
	if *short {
		o.records, o.rounds = 600_000, 1
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		cancel()
		os.Exit(1)
	}
}

// section is one part of the report.
type section struct {
	name, title string
	kafka       bool // needs the broker
	run         func(context.Context, *lab) error
}

func sections() []section {
	return []section{
		{"copy", "pass-through Kafka to Kafka, exactly once at 1 s, against a bare franz-go copy loop", true, copySection},
		{"count", "keyed count, every update written, against a Go map in the same loop", true, countSection},
		{"modes", "exactly once over at least once", true, modesSection},
		{"peers", "Apache Flink and Kafka Streams on the same broker and input", true, peersSection},
		{"pause", "checkpoint pause and duration with a large state and a 100 ms interval", false, pauseSection},
		{"files", "part files of JSON lines and Parquet against the bare library writer", false, filesSection},
		{"postgres", "rows into PostgreSQL, each way of delivery, against bare COPY and a bare batched upsert; waits of commits", false, postgresSection},
		{"http", "requests through the write-ahead log against bare requests", false, httpSection},
		{"start", "start to running and to the first record visible, idle memory, size of the binary", true, startSection},
	}
}

func names() (out []string) {
	for _, s := range sections() {
		out = append(out, s.name)
	}
	return out
}

// skip is the error of a section that this machine cannot measure, and says why. The
// others go on, and the end of the report counts it.
type skip string

func (s skip) Error() string { return string(s) }

func run(ctx context.Context, o options) error {
	var skipped []string
	l := &lab{o: o, results: map[string][]measurement{}}
	defer l.close()
	for _, s := range sections() {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), s.name) {
			continue
		}
		fmt.Printf("\n== %s: %s\n", s.name, s.title)
		begin := time.Now()
		if s.kafka {
			if err := l.prepare(ctx); err != nil {
				return err
			}
		}
		var why skip
		switch err := s.run(ctx, l); {
		case errors.As(err, &why):
			fmt.Printf("   SKIPPED: %s\n", why)
			skipped = append(skipped, s.name)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("   (%v)\n", time.Since(begin).Round(time.Second))
	}
	if len(skipped) > 0 {
		fmt.Printf("\nSKIPPED %d: %s\n", len(skipped), strings.Join(skipped, ", "))
	}
	return nil
}
