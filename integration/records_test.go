package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

// policy is a job that reads JSON and writes it anew, with an on_error everywhere.
const policy = common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], on_error: "${ON_ERROR}" }
transforms:
  again: { type: map, inputs: [in], on_error: "${ON_ERROR}", map: { n: this.n, twice: this.n + this.n, rest: this.rest } }
sinks:
  out: { type: kafka, connection: main, inputs: [again], topic: "${OUT}", on_error: "${ON_ERROR}" }
`

// poison are values that are no good, by what is wrong with them. Each must be
// found: none may be altered and passed on.
var poison = map[string]string{
	"not JSON":           `nonsense`,
	"nothing":            ``,
	"cut off":            `{"n":1`,
	"trailing data":      `{"n":1}{"n":2}`,
	"a byte order mark":  "\ufeff" + `{"n":1}`,
	"a name twice":       `{"n":1,"n":2}`,
	"a name twice below": `{"n":1,"rest":{"a":1,"\u0061":2}}`,
	"invalid UTF-8":      "{\"n\":1,\"rest\":\"\xc3\x28\"}",
	"a lone surrogate":   `{"n":1,"rest":"\ud800"}`,
	"NaN":                `{"n":NaN}`,
	"a leading zero":     `{"n":01}`,
	"a text for a sum":   `{"n":[]}`,
	"null for a sum":     `{"n":null}`,
}

// fine are values and what must come out: every digit of it.
var fine = [][2]string{
	{`{"n":1}`, `{"n":1,"twice":2,"rest":null}`},
	{`{"n":9007199254740993,"rest":9007199254740993}`, `{"n":9007199254740993,"twice":18014398509481986,"rest":9007199254740993}`},
	{`{"n":-4611686018427387904,"rest":0.1}`, `{"n":-4611686018427387904,"twice":-9223372036854775808,"rest":0.1}`},
	{`{"n":9223372036854775807}`, `{"n":9223372036854775807,"twice":18446744073709551614,"rest":null}`},
	{`{"n":0.1,"rest":123456789012345678901234567890}`, `{"n":0.1,"twice":0.2,"rest":123456789012345678901234567890}`},
	{`{"n":2,"rest":"\u0000\ud83d\ude00\/é"}`, `{"n":2,"twice":4,"rest":"\u0000\ud83d\ude00\/é"}`},
}

// Records that are no good are counted and left out, and nothing else is. Nothing of
// what is good loses a digit (R02, R05).
func TestSkip(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, policy, "IN="+in, "OUT="+out, "ON_ERROR=skip")
	var want []string
	for _, f := range fine {
		produce(t, b, in, values(0, f[0])...)
		want = append(want, f[1])
	}
	for _, p := range poison {
		produce(t, b, in, values(0, p)...)
	}
	produce(t, b, in, values(0, fine[0][0])...)
	produce(t, b, in, &kgo.Record{Key: []byte("k"), Value: nil}) // a tombstone is no document, and no error (R03)
	want = append(want, want[0], "")
	r := j.start().running()
	j.caughtUp()
	if n := r.metric("etl_component_errors_total", `action="skip"`); int(n) != len(poison) {
		t.Errorf("%v records are counted as skipped, want %d", n, len(poison))
	}
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, want...)
	rows := committed(t, b, out)[0]
	if last := rows[len(rows)-1]; last.Value != nil || string(last.Key) != "k" {
		t.Errorf("the tombstone became %q of %q", last.Value, last.Key)
	}
	j.finished()
}

// A record that is no good ends the job, which does not try again and again (R05):
// the message names the place, never the contents. What came before it is not lost,
// and the same record is met by the next start, until somebody decides.
func TestPoisonEndsTheJob(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, policy, "IN="+in, "OUT="+out, "ON_ERROR=fail")
	produce(t, b, in, values(0, fine[0][0], fine[0][0], `{"n":1,"n":"canary-7261"}`, fine[0][0])...)
	place := in + "/0@2"
	for range 2 {
		r := j.start()
		r.ends(1)
		l := r.message("the job failed", 1)
		if l.str("cause") != "json.duplicate_name" || !strings.Contains(l.text, place) {
			t.Errorf("it failed with %s", l.text)
		}
		if n := r.count("restarting from the last checkpoint"); n > 0 {
			t.Errorf("it was restarted %d times over a record that stays what it is", n)
		}
		if strings.Contains(r.log(1000), "canary-7261") {
			t.Errorf("the log has the contents of a record:\n%s", r.log(1000))
		}
	}
	j.set("ON_ERROR=skip")
	r := j.start().running()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, fine[0][1], fine[0][1], fine[0][1])
}

// A row that the topic does not take is refused by the policy of its sink, not by
// the broker: it takes neither its transaction nor the job with it (R08).
func TestTooLargeRows(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1, "max.message.bytes=2000")
	text := strings.Replace(copying, "compression: zstd", `on_error: "${ON_ERROR}"`, 1)
	large := strings.Repeat("x", 3000)
	produce(t, b, in, values(0, "a", large, "b")...)
	j := newJob(t, b, text, "IN="+in, "OUT="+out, "ON_ERROR=fail")
	r := j.start()
	r.ends(1)
	l := r.message("the job failed", 1)
	if l.str("cause") != "kafka.record_too_large" {
		t.Errorf("it failed with %s", l.text)
	}
	for _, fact := range []string{in + "/0@1", "2000", "max.message.bytes"} {
		if !strings.Contains(l.text, fact) {
			t.Errorf("%q does not name %q", l.text, fact)
		}
	}
	j.set("ON_ERROR=skip")
	r = j.start().running()
	eventually(t, "the others are written", func() bool { return fmt.Sprint(texts(t, b, out)) == "[a b]" })
	if n := r.metric("etl_component_errors_total", `action="skip"`, `component="out"`); n != 1 {
		t.Errorf("%v rows are counted as skipped", n)
	}
	j.must("stop")
	r.ends(0)
	free(t, b, out)
	j.refused(j.etl("verify", "--settle", "0s", "--finished"), 1, "verify.mismatch", "missing 1")
}
