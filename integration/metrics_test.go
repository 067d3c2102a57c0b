package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"etl/internal/kafkatest"
)

// What is measured is what has happened: the counters of a real job agree with its
// input, lag becomes 0, and health says what is so.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	produce(t, b, in, numbered(0, 300, 5, 3)...)
	j := newJob(t, b, common+often+`
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
transforms:
  odd: { type: filter, inputs: [in], where: this.n % 2 == 1 }
sinks:
  out: { type: kafka, connection: main, inputs: [odd], topic: "${OUT}" }
`, "IN="+in, "OUT="+out)
	r := j.start().running()
	j.caughtUp()
	for _, m := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"etl_component_records_out_total", []string{`component="in"`}, 300},
		{"etl_component_records_in_total", []string{`component="odd"`}, 300},
		{"etl_component_records_in_total", []string{`component="out"`}, 150},
		{"etl_source_lag_records", nil, 0},
		{"etl_source_position_offset", []string{`topic="` + in + `"`}, 300},
		{"etl_source_checkpointed_offset", []string{`topic="` + in + `"`}, 300},
		{"etl_source_group_commit_failures_total", nil, 0},
		{"etl_sink_batch_records_sum", []string{`component="out"`}, 150},
		{"etl_pipeline_state", []string{`state="running"`}, 1},
		{"etl_pipeline_restarts_total", nil, 0},
		{"etl_component_errors_total", nil, 0},
		{"etl_sink_uncommitted_records", nil, 0},
		{"etl_pipeline_info", []string{`guarantee="exactly_once"`}, 1},
	} {
		r.measures(m.name, m.want, m.labels...)
	}
	// What a client fetches or sends once more is counted once more.
	if in, out := r.metric("etl_kafka_client_fetch_records_total", `component="in"`), r.metric("etl_kafka_client_produce_records_total", `component="out"`); in < 300 || out < 150 {
		t.Errorf("the clients have fetched %v records and sent %v", in, out)
	}
	if n := r.metric("etl_checkpoint_completed_total"); n < 1 {
		t.Errorf("%v checkpoints are completed", n)
	}
	_, page := r.get("/metrics")
	for text := range strings.Lines(page) {
		if strings.HasPrefix(text, "etl_") && strings.Contains(text, `"k1"`) {
			t.Errorf("a label holds a key: %s", text)
		}
	}
	for path, word := range map[string]string{"/livez": "", "/readyz": "running"} {
		if code, text := r.get(path); code != http.StatusOK || !strings.Contains(text, word) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+$`).MatchString(r.address()) {
		t.Errorf("the address is %s", r.address())
	}
	j.must("stop")
	r.ends(0)
}

// measures waits until a metric has a value: rows are visible a moment before the job has
// seen that they are.
func (r *run) measures(name string, want float64, labels ...string) {
	r.t.Helper()
	got := want
	defer func() {
		if got != want {
			r.t.Logf("it is %v", got)
		}
	}()
	eventually(r.t, fmt.Sprintf("%s%v is %v", name, labels, want), func() bool {
		got = r.metric(name, labels...)
		return got == want
	})
}
