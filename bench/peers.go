package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// peer is another engine doing the same work.
type peer struct {
	name, folder, class string
	variants            []variant
}

// variant is one configuration of a peer's work.
type variant struct{ work, backend string }

var peers = []peer{
	{"flink", "flink", "FlinkPeer", []variant{{"copy", "hashmap"}, {"count", "hashmap"}, {"count", "rocksdb"}}},
	{"streams", "streams", "StreamsPeer", []variant{{"copy", "memory"}, {"count", "memory"}, {"count", "rocksdb"}}},
}

// peersSection runs Apache Flink and Kafka Streams on the same broker and input,
// exactly once at 1 s, and prints how much more processor time they take.
func peersSection(ctx context.Context, l *lab) error {
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return skip("peers need javac and mvn (make setup installs them): " + tool + " is missing")
		}
	}
	dir, err := peersDir()
	if err != nil {
		return err
	}
	ours := map[string]float64{}
	for _, w := range []string{"copy", "count"} {
		if len(l.results["etl-"+w]) == 0 {
			if err := l.rounds(ctx, "etl-"+w); err != nil {
				return err
			}
		}
		ours[w] = l.median("etl-"+w, cpu)
	}
	aims := map[string]string{"flink-copy-hashmap": ">= 4", "streams-copy-memory": ">= 5", "flink-count-hashmap": ">= 7", "flink-count-rocksdb": ">= 18", "streams-count-memory": ">= 8"}
	for _, p := range peers {
		if err := p.fetch(ctx, dir); err != nil {
			return err
		}
		if err := p.build(ctx, dir); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
		for _, v := range p.variants {
			m, err := l.runPeer(ctx, p, v, dir)
			if err != nil {
				return err
			}
			fmt.Printf("   %-22s %7.0f ns CPU/record  %9.0f records/s  %4d MiB   %.1f x etl-%s (aim %s)\n", m.Work, m.CPUPerRec, m.RecPerSec, m.PeakMiB,
				m.CPUPerRec/ours[v.work], v.work, envelope(aims[m.Work]))
		}
	}
	return nil
}

func envelope(aim string) string {
	if aim == "" {
		return "-"
	}
	return aim
}

// peersDir is where jars and classes are kept: outside the checkout, so that they
// are fetched once.
func peersDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "etl-peers"), nil
}

// peersSource is where the programs of the peers are.
var peersSource = filepath.Join("bench", "peers")

// fetch gets the peer's jars by Maven, if need be. What the network does not give after a
// few tries cannot be measured here.
func (p peer) fetch(ctx context.Context, dir string) error {
	ok := filepath.Join(dir, p.folder, "ok")
	if _, err := os.Stat(ok); err == nil {
		return nil
	}
	fmt.Printf("   fetching the jars of %s\n", p.name)
	var err error
	for range 3 {
		err = quietly(ctx, "mvn", "-q", "-B", "-f", filepath.Join(peersSource, p.folder, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, p.folder, "libs"), "-DincludeScope=runtime")
		if err == nil {
			return os.WriteFile(ok, nil, 0o644)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return skip(fmt.Sprintf("the jars of %s cannot be fetched: %v", p.name, err))
}

// build compiles the peer's program.
func (p peer) build(ctx context.Context, dir string) error {
	libs, classes := filepath.Join(dir, p.folder, "libs"), filepath.Join(dir, p.folder, "classes")
	if err := os.MkdirAll(classes, 0o755); err != nil {
		return err
	}
	return quietly(ctx, "javac", "-d", classes, "-cp", libs+"/*", filepath.Join(peersSource, p.folder, p.class+".java"), filepath.Join(peersSource, "common", "Steady.java"))
}

// quietly runs a command and shows what it said only if it failed.
func quietly(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func (l *lab) runPeer(ctx context.Context, p peer, v variant, dir string) (m measurement, err error) {
	if err := l.topic(ctx, "out"); err != nil {
		return m, err
	}
	work, err := os.MkdirTemp("", "etl-peer")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(work)
	cp := filepath.Join(dir, p.folder, "classes") + ":" + filepath.Join(dir, p.folder, "libs") + "/*"
	cmd := exec.CommandContext(ctx, "java", "-Xmx3g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "--add-opens=java.base/java.lang=ALL-UNNAMED",
		"--add-opens=java.base/java.util=ALL-UNNAMED", "-cp", cp, p.class, l.addr, v.work, v.backend, work, strconv.Itoa(l.o.records))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return m, fmt.Errorf("%s %s: %w", p.name, v.work, err)
	}
	return m, json.Unmarshal(out, &m)
}
