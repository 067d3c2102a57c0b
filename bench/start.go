package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startSection builds the binary as it is released, and measures its size, how
// long it takes from exec to the first record read, and what it holds while idle.
func startSection(ctx context.Context, l *lab) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "etl")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "./cmd/etl")
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
	var first []time.Duration
	for i := range max(l.o.rounds, 1) {
		if err := l.topic(ctx, "out"); err != nil {
			return err
		}
		d, rss, err := l.startOnce(ctx, bin, filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		first = append(first, d)
		fmt.Printf("   start to running %v, resident memory after 10 s idle %d MiB (aim < 50)\n", d.Round(time.Millisecond), rss)
	}
	fmt.Printf("   start to running, median %v\n", quantile(first, .5).Round(time.Millisecond))
	return nil
}

const startFile = `version: 1
name: start
connections:
  main: { type: kafka, seed_brokers: ["%s"] }
sources:
  in: { type: kafka, connection: main, topics: [idle], decode: raw }
sinks:
  out: { type: kafka, inputs: [in], connection: main, topic: out, encode: raw }
http: { address: none }
telemetry: { log: { format: json } }
`

// startOnce runs a pass-through on an idle topic.
func (l *lab) startOnce(ctx context.Context, bin, dir string) (time.Duration, int, error) {
	if err := l.topic(ctx, "idle"); err != nil {
		return 0, 0, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, 0, err
	}
	file := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, startFile, l.addr), 0o600); err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, bin, "run", "--data-dir", dir, file)
	out, err := cmd.StderrPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	sc := bufio.NewScanner(out)
	var took time.Duration
	for sc.Scan() {
		if strings.Contains(sc.Text(), `"msg":"running"`) {
			took = time.Since(begin)
			break
		}
		if strings.Contains(sc.Text(), `"level":"ERROR"`) {
			return 0, 0, fmt.Errorf("%s", sc.Text())
		}
	}
	go func() {
		for sc.Scan() { // keep the pipe empty
		}
	}()
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	rss := residentMiB(cmd.Process.Pid)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		return 0, 0, fmt.Errorf("the idle job: %w", err)
	}
	return took, rss, nil
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
