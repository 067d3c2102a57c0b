package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/stream"
)

// codes returns every error code Kafka's protocol knows to this client, OK included.
func codes() (all []int16) {
	for c := int16(-1); c < 300; c++ {
		if err := kerr.ErrorForCode(c); c == 0 || err != nil && !(c > 0 && errors.Is(err, kerr.UnknownServerError)) {
			all = append(all, c)
		}
	}
	return all
}

var judges = map[string]func(int16) Verdict{
	"EndTxn": EndTxnVerdict, "InitProducerID": InitVerdict, "TxnOffsetCommit": MarkVerdict, "AddOffsetsToTxn": MarkVerdict,
}

// TestVerdicts shows what each answer means, for every code; a code that is not listed
// is "again".
func TestVerdicts(t *testing.T) {
	datadriven.RunTest(t, "testdata/verdicts", func(t *testing.T, d *datadriven.TestData) string {
		judge := judges[d.CmdArgs[0].Key]
		lists := map[Verdict][]string{}
		for _, c := range codes() {
			v := judge(c)
			lists[v] = append(lists[v], kafkaconn.CodeName(c))
		}
		var b strings.Builder
		for _, v := range []Verdict{Done, Final, Refused} {
			fmt.Fprintf(&b, "%s: %s\n", v, strings.Join(lists[v], " "))
		}
		fmt.Fprintf(&b, "again: the other %d\n", len(lists[Again]))
		return b.String()
	})
}

// answer makes the fake broker answer one kind of request with a code, n times.
type answer struct {
	code int16
	left atomic.Int64
}

func (a *answer) next() bool { return a.left.Add(-1) >= 0 }

// TestEveryCode answers each request with each code once, or for ever when the code is
// final, and looks at what the operation makes of it.
func TestEveryCode(t *testing.T) {
	l := fakeLab(t)
	var a answer
	reply := map[kmsg.Key]func(kmsg.Request) kmsg.Response{
		kmsg.EndTxn: func(r kmsg.Request) kmsg.Response {
			resp := r.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ErrorCode = a.code
			return resp
		},
		kmsg.InitProducerID: func(r kmsg.Request) kmsg.Response {
			resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = a.code
			return resp
		},
		kmsg.TxnOffsetCommit: markAnswer(&a),
	}
	l.fake.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		l.fake.KeepControl()
		if f := reply[kmsg.Key(r.Key())]; f != nil && a.next() {
			return f(r), nil, true
		}
		return nil, nil, false
	})
	set := func(code int16, n int64) { a.code = code; a.left.Store(n) }
	for _, code := range codes() {
		if code == 0 {
			continue
		}
		name := kafkaconn.CodeName(code)
		set(0, 0)
		p := l.prepare(0, 0, id(1, int(code)+2), 3)
		c := l.open()
		everyCommit(t, c, p, name, code, set)
		everyInit(t, c, name, code, set)
		everyMark(t, l, c, name, code, set)
	}
}

func markAnswer(a *answer) func(kmsg.Request) kmsg.Response {
	return func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, rt := range r.(*kmsg.TxnOffsetCommitRequest).Topics {
			t := kmsg.NewTxnOffsetCommitResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.ErrorCode = a.code
			t.Partitions = append(t.Partitions, p)
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
}

// A commit that is answered with a code that decides nothing is sent again and succeeds;
// one that is final for ever is not taken for lost while the coordinator holds it open.
func everyCommit(t *testing.T, c *Client, p *Payload, name string, code int16, set func(int16, int64)) {
	t.Helper()
	ckpt := id(1, int(code)+2)
	set(code, 1)
	r, err := c.Commit(t.Context(), p, ckpt)
	want := sink.Done
	switch EndTxnVerdict(code) {
	case Final:
		want = sink.Transient // the coordinator still holds it open: nothing is proven
	case Refused:
		if stream.CodeOf(err) != "kafka.acl" || stream.ClassOf(err) != stream.Environment {
			t.Errorf("EndTxn %s: %v", name, err)
		}
		err, r.Outcome = nil, want
	}
	if err != nil || r.Outcome != want {
		t.Errorf("EndTxn %s: %v (%s) %v, want %v", name, r.Outcome, r.Detail, err, want)
	}
	set(0, 0)
	if r, err := c.Commit(t.Context(), p, ckpt); err != nil || r.Outcome != sink.Done {
		t.Errorf("after EndTxn %s: %v %v", name, r, err)
	}
}

func everyInit(t *testing.T, c *Client, name string, code int16, set func(int16, int64)) {
	t.Helper()
	set(code, 1)
	_, err := c.initProducer(t.Context(), "etl.x")
	set(0, 0)
	switch v := InitVerdict(code); {
	case v == Again && err != nil, v != Again && err == nil:
		t.Errorf("InitProducerID %s (%v): %v", name, v, err)
	case v == Refused && stream.ClassOf(err) != stream.Environment:
		t.Errorf("InitProducerID %s: %v", name, err)
	}
}

func everyMark(t *testing.T, l *lab, c *Client, name string, code int16, set func(int16, int64)) {
	t.Helper()
	txid := l.names.TxID(1, 1, 0)
	tx, err := c.initProducer(t.Context(), txid)
	if err != nil {
		t.Fatal(err)
	}
	set(code, 1)
	err = c.Mark(context.WithoutCancel(t.Context()), tx, 1, id(1, 1), "")
	set(0, 0)
	switch v := MarkVerdict(code); {
	case v == Again && err != nil, v != Again && err == nil:
		t.Errorf("TxnOffsetCommit %s (%v): %v", name, v, err)
	case v == Final && stream.ClassOf(err) != stream.Restart && !errors.Is(err, kerr.OffsetMetadataTooLarge):
		t.Errorf("TxnOffsetCommit %s: class %v of %v", name, stream.ClassOf(err), err)
	case v == Refused && stream.ClassOf(err) != stream.Environment:
		t.Errorf("TxnOffsetCommit %s: %v", name, err)
	}
}

// On transaction version 1 the group is enlisted first.
func TestEveryCodeOfAddOffsets(t *testing.T) {
	l := fakeLab(t, tv1())
	var a answer
	l.fake.ControlKey(int16(kmsg.AddOffsetsToTxn), func(r kmsg.Request) (kmsg.Response, error, bool) {
		l.fake.KeepControl()
		if !a.next() {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
		resp.ErrorCode = a.code
		return resp, nil, true
	})
	c := l.open()
	for _, code := range codes() {
		if code == 0 {
			continue
		}
		everyMark(t, l, c, kafkaconn.CodeName(code), code, func(code int16, n int64) { a.code = code; a.left.Store(n) })
	}
}
