package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	twophase "etl/sink/twophase/postgres"
	"etl/stream"
)

// work is what a child is told to do.
type work struct {
	name    string
	broker  string
	records int
	meter   *meter
	// of the pause work
	stateMiB, rate int
	memory         int64
	listener       *stream.Listener // instead of the meter's
}

var works = map[string]func(context.Context, *work) error{
	"floor-copy":         floorCopy,
	"floor-copy-pooled":  floorCopyPooled,
	"floor-count":        floorCount,
	"etl-copy":           etlCopy,
	"etl-count":          etlCount,
	"etl-count-alo":      etlCountAtLeastOnce,
	"pause":              pauseJob,
	"floor-copy-in":      floorCopyIn,
	"floor-copy-pgx":     floorCopyPgx,
	"etl-prepared":       twoPhase(events, twophase.Config{Strategy: twophase.Prepared}, copied),
	"etl-staged":         twoPhase(events, twophase.Config{Strategy: twophase.Staged}, copied),
	"etl-wal":            logged(copied),
	"floor-upsert":       floorUpsert,
	"etl-prepared-up":    twoPhase(counts, twophase.Config{Strategy: twophase.Prepared, Mode: twophase.Upsert}, replaced),
	"etl-staged-up":      twoPhase(counts, twophase.Config{Strategy: twophase.Staged, Mode: twophase.Upsert}, replaced),
	"etl-idempotent-up":  idempotentUpsert,
	"commit-prepared":    twoPhase(events, twophase.Config{Strategy: twophase.Prepared}, committed),
	"commit-staged":      twoPhase(events, twophase.Config{Strategy: twophase.Staged}, committed),
	"commit-wal":         logged(committed),
	"floor-post":         floorPost,
	"etl-wal-http":       etlWALHTTP,
	"floor-json":         floorJSON,
	"etl-json":           etlJSON,
	"floor-json-zstd":    floorJSONZstd,
	"etl-json-zstd":      etlJSONZstd,
	"floor-parquet":      floorParquet,
	"floor-parquet-rows": floorParquetRows,
	"etl-parquet":        etlParquet,
}

// child does one work and prints what it took.
func child(args []string) {
	fs := flag.NewFlagSet("child", flag.ExitOnError)
	w := &work{}
	fs.StringVar(&w.name, "work", "", "")
	fs.StringVar(&w.broker, "broker", "", "")
	fs.IntVar(&w.records, "records", 0, "")
	fs.IntVar(&w.stateMiB, "state", 0, "")
	fs.IntVar(&w.rate, "rate", 0, "")
	profile := fs.String("profile", "", "")
	_ = fs.Parse(args)
	w.meter = &meter{total: int64(w.records)}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			_ = pprof.StartCPUProfile(f)
			defer pprof.StopCPUProfile()
		}
	}
	f := works[w.name]
	if f == nil {
		fmt.Fprintln(os.Stderr, "unknown work", w.name)
		os.Exit(2)
	}
	if err := f(context.Background(), w); err != nil {
		fmt.Fprintln(os.Stderr, w.name+":", err)
		os.Exit(1)
	}
	if w.listener != nil {
		return // it has printed its figures
	}
	_ = json.NewEncoder(os.Stdout).Encode(w.meter.report(w.name))
}

// meter counts records and takes the CPU time of the last two thirds.
type meter struct {
	total       int64
	seen        atomic.Int64
	begun       atomic.Bool
	wall, end   time.Time
	cpu, cpuEnd time.Duration
	from        int64
	checkpoints atomic.Int64

	mu    sync.Mutex
	waits []time.Duration // of checkpoints, from permit to committed
}

// add counts n records. It is called by one goroutine at a time or more.
func (m *meter) add(n int) {
	if m.seen.Add(int64(n)) >= m.total/3 && !m.begun.Load() {
		m.start()
	}
}

// start begins to measure, once: with the last two thirds of the records, or before, where
// records count late.
func (m *meter) start() {
	if m.begun.CompareAndSwap(false, true) {
		m.wall, m.cpu, m.from = time.Now(), cpuTime(), m.seen.Load()
	}
}

// checkpoint notes a checkpoint that took so long from its permit until it was committed.
func (m *meter) checkpoint(took time.Duration) {
	m.checkpoints.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, took)
}

// done ends the measurement; report does otherwise.
func (m *meter) done() { m.end, m.cpuEnd = time.Now(), cpuTime() }

func (m *meter) report(name string) measurement {
	if m.end.IsZero() {
		m.done()
	}
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	n := float64(m.seen.Load() - m.from)
	m.mu.Lock()
	defer m.mu.Unlock()
	return measurement{Work: name, CommitP50: quantile(m.waits, .5), CommitP99: quantile(m.waits, .99), Records: int(m.seen.Load()), CPUPerRec: float64((m.cpuEnd - m.cpu).Nanoseconds()) / n,
		RecPerSec: n / m.end.Sub(m.wall).Seconds(), PeakMiB: u.Maxrss / 1024, Checkpoints: int(m.checkpoints.Load())}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
