package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

// lettered decodes, computes, routes and writes; each of these finds some records bad.
const lettered = common + often + `
parallelism: 2
dead_letter: rejects
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], on_error: dead_letter }
transforms:
  more: { type: map, inputs: [in], on_error: dead_letter, map: { n: this.n, next: this.n + 1, pad: this.pad } }
  which: { type: route, inputs: [more], on_error: dead_letter, route: { even: this.n % 2 == 0, odd: this.n % 2 == 1 } }
sinks:
  even: { type: kafka, connection: main, inputs: [which.even], topic: "${EVEN}", on_error: dead_letter }
  odd: { type: kafka, connection: main, inputs: [which.odd], topic: "${ODD}", on_error: dead_letter, dead_letter: fields }
  rejects: { type: kafka, connection: main, topic: "${REJECTS}" }
  fields: { type: kafka, connection: main, topic: "${FIELDS}", map: { n: "int(this.headers[0].value)", code: this.code, from: this.component, at: this.offset } }
`

// mixed makes record n of the input, and says which component finds it bad, and how.
func mixed(n int) (r *kgo.Record, by, code string) {
	r = &kgo.Record{Partition: int32(n % 3), Key: fmt.Append(nil, "k", n%5), Value: fmt.Appendf(nil, `{"n":%d,"pad":""}`, n),
		Headers: []kgo.RecordHeader{{Key: "n", Value: strconv.AppendInt(nil, int64(n), 10)}, {Key: "etl.dlq.topic", Value: []byte("mine")}}}
	switch {
	case n%7 == 3:
		r.Value = []byte(`{"n":`)
		return r, "in", "json.syntax"
	case n%11 == 5:
		r.Value = fmt.Appendf(nil, `{"n":"%d"}`, n)
		return r, "more", "expr.type"
	case n%13 == 6:
		r.Value = fmt.Appendf(nil, `{"n":-%d}`, 2*n+1)
		return r, "which", "route.no_case"
	case n%17 == 8:
		r.Value = fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, strings.Repeat("x", 3000))
		return r, []string{"even", "odd"}[n%2], "kafka.record_too_large"
	}
	return r, "", ""
}

// Dead letters are exactly once, like rows: the process is killed at the worst moments,
// and at last each record is a row or a dead letter, once, with its original bytes.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, rejects, fields := b.Topic(t, 3), b.Topic(t, 2), b.Topic(t, 1)
	even, odd := b.Topic(t, 2, "max.message.bytes=2000"), b.Topic(t, 2, "max.message.bytes=2000")
	j := newJob(t, b, lettered, "IN="+in, "EVEN="+even, "ODD="+odd, "REJECTS="+rejects, "FIELDS="+fields)
	n := 0
	more := func() {
		var recs []*kgo.Record
		for range 400 {
			r, _, _ := mixed(n)
			recs, n = append(recs, r), n+1
		}
		produce(t, b, in, recs...)
	}
	for _, plan := range []string{"checkpoint.published:3:kill", "kafka.endtxn.sent:3:kill", "recover.committed:1:kill", "task.finish.after:5:kill"} {
		more()
		r := j.faulty(plan)
		more()
		r.killed()
	}
	r := j.start().running()
	more()
	rows := func() int {
		return len(texts(t, b, even)) + len(texts(t, b, odd)) + len(texts(t, b, rejects)) + len(texts(t, b, fields))
	}
	eventually(t, "every record is written somewhere", func() bool { return rows() >= n })
	j.must("stop")
	r.ends(0)
	free(t, b, rejects)

	times := make([]int, n)
	for _, topic := range []string{even, odd} {
		for _, recs := range committed(t, b, topic) {
			for _, rec := range recs {
				times[parse(t, rec).N]++
			}
		}
	}
	for _, recs := range committed(t, b, rejects) {
		for _, rec := range recs {
			times[theLetter(t, in, rec)]++
		}
	}
	for _, recs := range committed(t, b, fields) {
		for _, rec := range recs {
			v := parse(t, rec)
			times[v.N]++
			_, by, code := mixed(v.N)
			if want := fmt.Sprintf(`{"n":%d,"code":"%s","from":"%s","at":%d}`, v.N, code, by, v.N/3); by != "odd" || string(rec.Value) != want {
				t.Errorf("the letter is %s, want %s", rec.Value, want)
			}
		}
	}
	for i, k := range times {
		if _, by, code := mixed(i); k != 1 {
			t.Errorf("record %d (%s %s) is there %d times", i, by, code, k)
		}
	}
	replayed(t, b, j, n, "rejects", func(by string) bool { return by != "" && by != "odd" })
}

// replayed replays the letters of a sink, which those of components go to, to another
// topic. The replay is killed after its checkpoint was published, and again while what it
// had prepared is being committed: each original record is there once all the same.
func replayed(t *testing.T, b *kafkatest.Broker, j *job, n int, sink string, goes func(by string) bool) {
	t.Helper()
	repair := b.Topic(t, 3)
	for _, plan := range []string{"checkpoint.published:1:kill", "recover.committed:1:kill"} {
		cmd := j.command("dlq replay", "--sink", sink, "--to", repair)
		cmd.Env = append(cmd.Env, "ETL_FAULT="+plan)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("the replay was to be killed: %v\n%s", err, out)
		}
	}
	j.must("dlq replay", "--sink", sink, "--to", repair)
	j.must("dlq replay", "--sink", sink, "--to", repair) // nothing is left to do
	times := make([]int, n)
	for _, recs := range committed(t, b, repair) {
		for _, rec := range recs {
			i, err := strconv.Atoi(string(rec.Headers[0].Value))
			if err != nil {
				t.Fatal(err)
			}
			times[i]++
			from, _, _ := mixed(i)
			if string(rec.Key) != string(from.Key) || string(rec.Value) != string(from.Value) || len(rec.Headers) != len(from.Headers) || rec.Timestamp.UnixMilli() <= 0 {
				t.Errorf("record %d came back as %q %q %v %v", i, rec.Key, rec.Value, rec.Headers, rec.Timestamp)
			}
		}
	}
	for i, k := range times {
		want := 1
		if _, by, _ := mixed(i); !goes(by) {
			want = 0
		}
		if k != want {
			t.Errorf("record %d of %s was replayed %d times, want %d", i, sink, k, want)
		}
	}
	free(t, b, repair)
}

// theLetter checks a dead letter and returns the number of its record.
func theLetter(t *testing.T, in string, rec *kgo.Record) int {
	t.Helper()
	n, err := strconv.Atoi(string(rec.Headers[0].Value))
	if err != nil {
		t.Fatalf("the letter %v has lost its headers", rec.Headers)
	}
	from, by, code := mixed(n)
	if string(rec.Key) != string(from.Key) || string(rec.Value) != string(from.Value) {
		t.Errorf("the letter of record %d has the key %q and the value %q", n, rec.Key, rec.Value)
	}
	want := []kgo.RecordHeader{from.Headers[0], from.Headers[1]}
	for _, h := range [][2]string{{"topic", in}, {"partition", fmt.Sprint(n % 3)}, {"offset", fmt.Sprint(n / 3)}, {"timestamp", ""}, {"component", by}, {"code", code}, {"message", ""}} {
		want = append(want, kgo.RecordHeader{Key: "etl.dlq." + h[0], Value: []byte(h[1])})
	}
	if len(rec.Headers) != len(want) {
		t.Fatalf("record %d has the headers %s", n, rec.Headers)
	}
	for i, h := range rec.Headers {
		if h.Key != want[i].Key || len(want[i].Value) > 0 && string(h.Value) != string(want[i].Value) || len(h.Value) == 0 {
			t.Errorf("record %d has the header %s %q, want %s %q", n, h.Key, h.Value, want[i].Key, want[i].Value)
		}
	}
	if by == "odd" || strings.Contains(string(rec.Headers[8].Value), "xxx") {
		t.Errorf("the letter of record %d: %s", n, rec.Headers)
	}
	return n
}
