package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// startSection builds the binary as make build does, stripped and with the paths of this
// machine, which spares compiling everything again; and measures its size, how long it
// takes from exec until the job runs and until its first record is visible to others,
// and what it holds while idle.
func startSection(ctx context.Context, l *lab) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "etl")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", bin, "./cmd/etl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the binary: %w", err)
	}
	st, err := os.Stat(bin)
	if err != nil {
		return err
	}
	fmt.Printf("   binary %.1f MiB, stripped, static\n", float64(st.Size())/(1<<20))
	var running, visible []time.Duration
	for i := range max(l.o.rounds, 1) {
		m, err := l.startOnce(ctx, bin, filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		running, visible = append(running, m.running), append(visible, m.visible)
		fmt.Printf("   start to running %v, to first record visible %v, resident memory after 10 s idle %d MiB (aim < 50)\n",
			m.running.Round(time.Millisecond), m.visible.Round(time.Millisecond), m.rss)
	}
	fmt.Printf("   start to running, median %v; to first record visible, with one checkpoint of a 100 ms interval, median %v\n",
		quantile(running, .5).Round(time.Millisecond), quantile(visible, .5).Round(time.Millisecond))
	return nil
}

const startFile = `version: 1
name: start
checkpoint: { interval: 100ms, min_pause: 10ms }
sources:
  in: { type: kafka, connection: main, topics: [idle], decode: raw }
sinks:
  out: { type: kafka, inputs: [in], connection: main, topic: out, encode: raw }
connections:
  main: { type: kafka, seed_brokers: ["%s"] }
http: { address: none }
telemetry: { log: { format: json } }
`

// started are the figures of one start.
type started struct {
	running, visible time.Duration // since exec
	rss              int           // MiB, after 10 s without input
}

// startOnce runs a pass-through on a topic with one record, which is there before the
// start; then the job idles.
func (l *lab) startOnce(ctx context.Context, bin, dir string) (m started, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cl, err := l.oneRecord(ctx)
	if err != nil {
		return m, err
	}
	defer cl.Close()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, err
	}
	file := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, startFile, l.addr), 0o600); err != nil {
		return m, err
	}
	cmd := exec.CommandContext(ctx, bin, "run", "--data-dir", dir, file)
	log, err := cmd.StderrPipe()
	if err != nil {
		return m, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return m, err
	}
	defer func() { // for the ways out by an error: it is killed
		cancel()
		_ = cmd.Wait()
	}()
	if m.running, m.visible, err = firstTimes(ctx, begin, log, cl); err != nil {
		return m, fmt.Errorf("the started job: %w", err)
	}
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	m.rss = residentMiB(cmd.Process.Pid)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		return m, fmt.Errorf("the idle job: %w", err)
	}
	return m, nil
}

// oneRecord makes the topics anew, writes a record into the input, and returns a
// read_committed consumer of the output.
func (l *lab) oneRecord(ctx context.Context) (*kgo.Client, error) {
	for _, name := range []string{"idle", "out"} {
		if err := l.topic(ctx, name); err != nil {
			return nil, err
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.addr), kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "idle", Value: []byte("first")}).FirstErr(); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// firstTimes waits until the log says that the job runs and the consumer has a record,
// and returns when that was. It goes on reading the log, so that the pipe stays empty.
func firstTimes(ctx context.Context, begin time.Time, log io.Reader, cl *kgo.Client) (running, visible time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ran := make(chan time.Duration, 1)
	go func() {
		sc := bufio.NewScanner(log)
		for sc.Scan() {
			if strings.Contains(sc.Text(), `"msg":"running"`) && len(ran) == 0 {
				ran <- time.Since(begin)
			}
			if strings.Contains(sc.Text(), `"level":"ERROR"`) {
				cancel(errors.New(sc.Text()))
			}
		}
		cancel(errors.New("it ended before its first record was visible"))
	}()
	for visible == 0 {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		if err := f.Err(); err != nil {
			return 0, 0, err
		}
		if f.NumRecords() > 0 {
			visible = time.Since(begin)
		}
	}
	select {
	case running = <-ran:
		return running, visible, nil
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
}

func residentMiB(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib / 1024
		}
	}
	return 0
}
