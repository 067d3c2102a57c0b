package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMetricsOfAService runs a pipeline as a service and sees in its page what its
// components, and their Kafka clients, have done. The engine's own metrics are tested
// where they are made.
func TestMetricsOfAService(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(measured, "BROKER", c.ListenAddrs()[0])), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &service{t: t}
	ended := make(chan int, 1)
	go func() {
		ended <- execute([]string{"run", file, "--data-dir", dir}, strings.NewReader(""), io.Discard, s)
	}()
	produceLines(t, c, 100)
	for _, m := range []struct {
		name   string
		labels []string
		least  float64
	}{
		{"etl_source_checkpointed_offset", []string{`component="in"`, `topic="in"`}, 100},
		{"etl_kafka_client_connects_total", []string{`component="in"`, `broker="0"`}, 1},
		{"etl_kafka_client_connects_total", []string{`component="out"`, `broker="seed"`}, 1},
		{"etl_kafka_client_write_bytes_total", []string{`component="in"`}, 100},
		{"etl_kafka_client_read_bytes_total", []string{`component="in"`}, 1000},
		{"etl_kafka_client_fetch_records_total", []string{`component="in"`}, 100},
		{"etl_kafka_client_fetch_bytes_total", []string{`component="in"`}, 1000},
		{"etl_kafka_client_produce_records_total", []string{`component="out"`}, 10},
		{"etl_kafka_client_produce_bytes_total", []string{`component="out"`}, 100},
		{"etl_kafka_client_disconnects_total", []string{`component="out"`}, 1}, // those of transactions come and go
		{"etl_sink_write_seconds_count", []string{`component="out"`}, 1},
		{"etl_state_read_seconds_count", []string{`component="counts"`}, 1},
		{"etl_sink_commits_total", []string{`component="out"`, `result="ok"`}, 1},
	} {
		s.reaches(m.least, m.name, m.labels...)
	}
	if code := execute([]string{"stop", file, "--data-dir", dir}, strings.NewReader(""), io.Discard, io.Discard); code != 0 {
		t.Errorf("stop exits with %d", code)
	}
	if code := <-ended; code != 0 {
		t.Errorf("the service exits with %d: %s", code, s.text())
	}
}

const measured = `
version: 1
name: measured
checkpoint: { interval: 200ms, min_pause: 0s }
connections:
  main: { type: kafka, seed_brokers: ["BROKER"] }
sources:
  in: { type: kafka, connection: main, topics: [in], decode: text, consumer_group: measured }
transforms:
  counts: { type: aggregate, inputs: [in], key: this.value, aggregates: { n: count }, emit: on_checkpoint }
sinks:
  out: { type: kafka, inputs: [counts], connection: main, topic: out, key: this.value }
telemetry: { log: { format: json } }
http: { address: "127.0.0.1:0" }
`

func produceLines(t *testing.T, c *kfake.Cluster, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("in"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range n {
		if err := cl.ProduceSync(context.Background(), kgo.StringRecord(fmt.Sprint("the same ten lines ", i%10))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// service is a process of etl run in this one; it takes what that says.
type service struct {
	t   *testing.T
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *service) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *service) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

var pageAddress = regexp.MustCompile(`"address":"(http://[^"]*)"`)

// page returns the metrics, "" while nobody serves them.
func (s *service) page() string {
	at := pageAddress.FindStringSubmatch(s.text())
	if at == nil {
		return ""
	}
	resp, err := http.Get(at[1] + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// reaches waits until a metric, added up over the series with these labels, is large
// enough.
func (s *service) reaches(least float64, name string, labels ...string) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var sum float64
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if sum = sumOf(s.page(), name, labels); sum >= least {
			return
		}
	}
	s.t.Fatalf("%s%v is %v, less than %v\n%s", name, labels, sum, least, s.text())
}

func sumOf(page, name string, labels []string) (sum float64) {
next:
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, name+"{")
		for _, l := range labels {
			if !ok || !strings.Contains(rest, l) {
				continue next
			}
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64); ok && err == nil {
			sum += v
		}
	}
	return sum
}
