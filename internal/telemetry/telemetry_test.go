package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"etl/stream"
)

func newTest(t *testing.T, log *slog.Logger) *Telemetry {
	t.Helper()
	tl, err := New(t.Context(), Options{Pipeline: "word-count", Guarantee: "exactly_once", Version: "1.2.3", Log: log,
		MaxCheckpointAge: time.Minute, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tl.Shutdown(context.Background()) })
	return tl
}

var (
	c31, c32 = stream.NewCheckpointID(3, 1), stream.NewCheckpointID(3, 2)
	lane     = stream.TaskID{UID: "out", Subtask: 1}
)

// play is the life of a job: a restore that finishes a commit, one good checkpoint,
// one that fails, one restart.
func play(l *stream.Listener) {
	counters := &stream.Counters{}
	now := time.Now
	l.OnTask(stream.TaskID{UID: "lines"}, "source", counters)
	l.OnTask(lane, "sink", &stream.Counters{})
	l.OnCommit(stream.CommitEvent{Task: lane, ID: stream.NewCheckpointID(2, 9), Outcome: "already_committed", Recovery: true, ByMarker: true, Rows: 7, Duration: time.Millisecond})
	l.OnJob(stream.JobEvent{Phase: "running", Attempt: 3, Restored: stream.NewCheckpointID(2, 9), At: now()})
	counters.RecordsIn.Add(100)
	counters.RecordsOut.Add(90)
	counters.BytesIn.Add(1000)
	for action, n := range map[string]int{"skip": 3, "dead_letter": 2} {
		for range n {
			counters.Rejects.Add(action, "json.syntax")
		}
	}
	counters.BusyNanos.Add(6e8)
	counters.IdleNanos.Add(2e8)
	counters.BlockedNanos.Add(2e8)

	l.OnWrite(stream.WriteEvent{Task: lane, Records: 90, Took: 2 * time.Millisecond})
	l.OnTransaction(stream.TransactionEvent{Task: lane, State: stream.TransactionOpen, Begun: now()})
	l.OnTransaction(stream.TransactionEvent{Task: lane, ID: c31, State: stream.TransactionFlushed})
	l.OnTransaction(stream.TransactionEvent{Task: lane, ID: c31, State: stream.TransactionPrepared, Begun: now().Add(time.Second), Logged: 700})
	l.OnState(stream.StateEvent{Task: stream.TaskID{UID: "counts"}, Op: "read", Took: 4 * time.Microsecond})
	l.OnState(stream.StateEvent{Task: stream.TaskID{UID: "counts"}, Op: "write", Took: 50 * time.Nanosecond})
	l.OnCheckpoint(stream.CheckpointEvent{ID: c31, Phase: "triggered", At: now()})
	begin := now()
	time.Sleep(40 * time.Millisecond)
	l.OnPart(stream.PartEvent{Part: "start_delay", Task: lane, ID: c31, Begin: begin.Add(-3 * time.Millisecond), Took: 3 * time.Millisecond})
	l.OnPart(stream.PartEvent{Part: "align", Task: lane, ID: c31, Begin: begin, Took: 5 * time.Millisecond})
	l.OnPart(stream.PartEvent{Part: "snapshot", Task: lane, ID: c31, Begin: begin.Add(5 * time.Millisecond), Took: time.Millisecond})
	l.OnPart(stream.PartEvent{Part: "pre_commit", Task: lane, ID: c31, Begin: begin.Add(6 * time.Millisecond), Took: 9 * time.Millisecond})
	l.OnPart(stream.PartEvent{Part: "upload", Task: lane, ID: c31, Begin: begin.Add(15 * time.Millisecond), Took: 20 * time.Millisecond})
	l.OnCheckpoint(stream.CheckpointEvent{ID: c31, Phase: "published", At: now(), Duration: 40 * time.Millisecond, Delta: 2048, Size: 3 << 20,
		Splits: map[stream.UID][]stream.Split{"lines": {{Topic: "text.lines", Partition: 2, NextOffset: 90}}}})
	time.Sleep(10 * time.Millisecond)
	l.OnCommit(stream.CommitEvent{Task: lane, ID: c31, Outcome: "transient", Duration: time.Millisecond})
	l.OnCommit(stream.CommitEvent{Task: lane, ID: c31, Outcome: "committed", Rows: 90, Duration: 10 * time.Millisecond})
	l.OnCheckpoint(stream.CheckpointEvent{ID: c31, Phase: "confirmed", At: now(), Duration: 50 * time.Millisecond, Alignment: 5 * time.Millisecond, Sync: time.Millisecond, Delta: 2048, Size: 3 << 20})

	l.OnReport(stream.ReportEvent{Source: "lines", ID: c31, Err: errors.New("the group is gone")})
	l.OnCheckpoint(stream.CheckpointEvent{ID: c32, Phase: "triggered", At: now()})
	time.Sleep(time.Second)
	l.OnCheckpoint(stream.CheckpointEvent{ID: c32, Phase: "aborted", At: now(), Duration: time.Second, Reason: "timeout", Err: errors.New("counts/2 has not acknowledged")})
	l.OnJob(stream.JobEvent{Phase: "restarting", Attempt: 3, At: now(), Err: stream.Errorf(stream.Restart, "storage.failed", "append", "file:/x", "disk full\nreally")})
	next := &stream.Counters{}
	l.OnTask(stream.TaskID{UID: "lines"}, "source", next)
	next.RecordsIn.Add(11)
	next.BusyNanos.Add(6e8)
	next.IdleNanos.Add(2e8)
	next.BlockedNanos.Add(2e8)
	next.Watermark.Store(1500)
	keyed := &stream.Counters{QueueFill: func() float64 { return 0.75 }}
	keyed.StateKeys.Store(1000)
	keyed.StateBytes.Store(64000)
	keyed.Spilled.Store(12)
	l.OnTask(stream.TaskID{UID: "counts"}, "operator", keyed)
	second := &stream.Counters{}
	for c, n := range map[*stream.Counters]int{keyed: 1, second: 4} {
		for range n {
			c.Rejects.Add("dead_letter", stream.CodeRejected)
		}
	}
	next.Rejects.Add("skip", "json.syntax") // beside those of the attempt before
	l.OnTask(stream.TaskID{UID: "counts", Subtask: 1}, "operator", second)
	l.OnJob(stream.JobEvent{Phase: "running", Attempt: 4, Restored: c31, At: now()})
}

// TestMetrics is the contract of names: see docs/metrics.md.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := newTest(t, nil)
		play(tl.Listener())
		read := time.Now().Add(-88 * time.Second).UnixMilli()
		tl.ObserveLag(stream.TaskID{UID: "lines"}, func() []Lag {
			return []Lag{{Topic: "text.lines", Partition: 2, NextOffset: 100, End: 112, Records: 12, Timestamp: read},
				{Topic: "text.lines", Partition: 3, NextOffset: 7, End: 7, Timestamp: read}, // nothing waits
				{Topic: "text.lines", Partition: 4, End: 5, Records: 5, Timestamp: -1}}      // nothing read yet
		})
		tl.ObserveKafka("lines", func() []KafkaClient {
			return []KafkaClient{{Broker: -1, Connects: 3, ConnectErrors: 1, Disconnects: 2, WriteBytes: 40, ReadBytes: 50},
				{Broker: 2, WriteBytes: 400, WriteErrors: 1, ReadBytes: 5000, ReadErrors: 2, ProduceRecords: 9, ProduceBytes: 90, FetchRecords: 10, FetchBytes: 100, Throttled: 1500 * time.Millisecond}}
		})
		time.Sleep(2 * time.Second)
		datadriven.RunTest(t, "testdata/metrics", func(t *testing.T, d *datadriven.TestData) string {
			return exposition(t, tl)
		})
	})
}

// TestBatchesAllocateNothing: what is told with every batch costs no memory.
func TestBatchesAllocateNothing(t *testing.T) {
	l := newTest(t, nil).Listener()
	if n := testing.AllocsPerRun(100, func() { l.OnWrite(stream.WriteEvent{Task: lane, Records: 512, Took: time.Millisecond}) }); n > 0 {
		t.Errorf("a batch that a sink takes costs %v allocations", n)
	}
}

// TestMetricsAreDocumented: docs/metrics.md has exactly the names of the golden file.
func TestMetricsAreDocumented(t *testing.T) {
	names := func(file, pattern string) []string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(b), -1) {
			out = append(out, m[1])
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	made, told := names("testdata/metrics", `(?m)^# TYPE (etl_[a-z_]+)`), names("../../docs/metrics.md", "(?m)^\\| `(etl_[a-z_]+)`")
	if !slices.Equal(made, told) {
		t.Errorf("the program has\n%v\ndocs/metrics.md has\n%v", made, told)
	}
}

// exposition returns the metrics of this program, all but one bucket left out.
func exposition(t *testing.T, tl *Telemetry) string {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil)
	tl.Handler().ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	var out []string
	for _, line := range strings.Split(rec.Body.String(), "\n") {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if !strings.HasPrefix(name, "etl_") || strings.Contains(line, "_bucket{") && !strings.HasPrefix(line, "etl_checkpoint_duration") {
			continue
		}
		if strings.Contains(line, "go_version") {
			line = strings.ReplaceAll(line, line[strings.Index(line, `go_version="`)+12:strings.Index(line, `",version`)], "go")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := newTest(t, nil)
		exporter := tracetest.NewInMemoryExporter()
		tl.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
		play(tl.Listener())
		var got strings.Builder
		for _, s := range exporter.GetSpans() {
			under := ""
			if s.Parent.IsValid() {
				under = "  under checkpoint "
			}
			fmt.Fprintf(&got, "%s%s %v", under, s.Name, s.EndTime.Sub(s.StartTime))
			for _, kv := range s.Attributes {
				if kv.Key != "etl.pipeline" {
					fmt.Fprintf(&got, " %s=%s", strings.TrimPrefix(string(kv.Key), "etl."), kv.Value.AsString())
				}
			}
			fmt.Fprintf(&got, " %s\n", s.Status.Description)
		}
		datadriven.RunTest(t, "testdata/spans", func(*testing.T, *datadriven.TestData) string { return got.String() })
	})
}

func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		log, err := NewLogger(&buf, LogOptions{Format: "text"})
		if err != nil {
			t.Fatal(err)
		}
		tl := newTest(t, log)
		play(tl.Listener())
		tl.Logger().Info("done")
		datadriven.RunTest(t, "testdata/logs", func(*testing.T, *datadriven.TestData) string { return buf.String() })
	})
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := newTest(t, nil)
		l := tl.Listener()
		check := func(want bool, detail string) {
			t.Helper()
			ok, checks := tl.Ready()
			if ok != want || !strings.Contains(fmt.Sprint(checks), detail) {
				t.Errorf("ready %v, want %v with %q: %v", ok, want, detail, checks)
			}
		}
		check(false, "starting")
		l.OnJob(stream.JobEvent{Phase: "running", At: time.Now()})
		check(true, "no checkpoint yet")
		time.Sleep(61 * time.Second)
		check(false, "no checkpoint yet, started 1m1s ago, more than 1m0s")
		l.OnCheckpoint(stream.CheckpointEvent{ID: c31, Phase: "published", At: time.Now()})
		check(true, "last checkpoint 3.1 0s ago")
		time.Sleep(2 * time.Minute)
		check(false, "last checkpoint 3.1 2m0s ago, more than 1m0s")
		l.OnCheckpoint(stream.CheckpointEvent{ID: c32, Phase: "published", At: time.Now()})
		l.OnJob(stream.JobEvent{Phase: "restarting", At: time.Now()})
		check(false, "restarting")
	})
}

func TestServe(t *testing.T) {
	tl := newTest(t, nil)
	if _, _, err := tl.Serve(t.Context(), "0.0.0.0:0"); stream.CodeOf(err) != "http.not_loopback" {
		t.Errorf("all interfaces: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	addr, done, err := tl.Serve(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/livez", "", 200},
		{"GET", "/readyz", "", 503},
		{"GET", "/metrics", "localhost:8150", 200},
		{"GET", "/metrics", "[::1]:8150", 200},
		{"GET", "/metrics", "evil.example", 421},
		{"POST", "/metrics", "", 405},
		{"GET", "/debug/pprof/", "", 404},
		{"GET", "/", "", 404},
	} {
		req, err := http.NewRequestWithContext(ctx, tc.method, "http://"+addr.String()+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tc.host
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tc.want || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s for %q: %d, want %d: %s", tc.method, tc.path, tc.host, resp.StatusCode, tc.want, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("end: %v", err)
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		log, err := NewLogger(&buf, LogOptions{Format: "json"})
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			log.Warn("record skipped", "offset", 1)
			log.With("component", "other").Warn("record skipped")
		}
		for range 20 {
			log.Error("every error is written")
		}
		time.Sleep(11 * time.Second)
		log.Warn("record skipped")
		out := buf.String()
		if n := strings.Count(out, "\n"); n != burst+burst+20+1 {
			t.Errorf("%d lines", n)
		}
		if !strings.Contains(out, `"omitted":990`) {
			t.Errorf("nothing says what was left out:\n%s", out)
		}
	})
}

func TestLoggerEscapes(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		for _, format := range []string{"text", "json", "auto"} {
			var buf bytes.Buffer
			log, err := NewLogger(&buf, LogOptions{Format: format, Terminal: terminal, Level: "debug"})
			if err != nil {
				t.Fatal(err)
			}
			bad := "a\nINFO forged \x1b[31m\u202e"
			log.With("k"+bad, bad).Info(bad, "topic", bad, "error", errors.New(bad), slog.Group("g", "x", bad))
			out := strings.TrimSuffix(buf.String(), "\n")
			if strings.Contains(out, "\n") || strings.Contains(out, "\x1b[31m\u202e") || terminal && format != "json" && strings.Contains(out, "\u202e") {
				t.Errorf("%s, terminal %v: %q", format, terminal, out)
			}
		}
	}
	if _, err := NewLogger(io.Discard, LogOptions{Level: "loud"}); err == nil {
		t.Error("a level that does not exist is accepted")
	}
}

func TestExportersAreOffByDefault(t *testing.T) {
	env := map[string]string{}
	tl := newTest(t, nil)
	tl.o.Getenv = func(k string) string { return env[k] }
	for _, tc := range []struct {
		key, value string
		want       bool
	}{
		{"NOTHING", "", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318", true},
		{"OTEL_METRICS_EXPORTER", "none", false},
		{"OTEL_METRICS_EXPORTER", "console", true},
		{"OTEL_SDK_DISABLED", "true", false},
	} {
		env[tc.key] = tc.value
		if got := tl.wanted("METRICS"); got != tc.want {
			t.Errorf("%s=%s: %v", tc.key, tc.value, got)
		}
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "no-such")
	_, err := New(t.Context(), Options{Pipeline: "x"})
	if stream.CodeOf(err) != "telemetry.exporter" {
		t.Errorf("unknown exporter: %v", err)
	}
}
