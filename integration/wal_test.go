package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
	"etl/internal/testservice"
)

// throughLog counts by key into a table, and copies into another one and into a topic, all
// through the write-ahead log.
var throughLog = countingAndCopying("delivery: wal") + `  sent: { type: kafka, inputs: [in], connection: main, topic: "${OUT}", delivery: wal }
`

// Exactly once through the log. The process is killed in the window that logs leave open:
// rows are delivered, and nothing that is durable says so; also when the answer to a
// delivery is lost, in the middle of one, and while it recovers. An older checkpoint is
// refused then: the markers are ahead of it.
func TestLogKilled(t *testing.T) {
	t.Parallel()
	b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
	in, out := b.Topic(t, 3), b.Topic(t, 3)
	d.exec(tables)
	j := newJob(t, b, throughLog, "IN="+in, "OUT="+out, "DSN="+d.admin)
	j.must("sink init", "--apply", "--role", d.role)
	j.set("DSN=" + d.worker)
	stop := feed(t, b, in, 7, 3)
	for _, plan := range []string{"wal.delivered:1", "wal.delivered:4", "wal.delivered:20", "wal.uploaded:6", "wal.postgres.commit.sent:5", "wal.postgres.written:3",
		"wal.kafka.written:4", "wal.kafka.initialised:3", "wal.recover.probed:1", "wal.fence.before:1", "wal.delivered:9"} {
		j.faulty(plan + ":kill").killed()
	}
	ids := j.checkpoints()
	j.refused(j.etl("run", "--from", ids[len(ids)-1]), 4, "restore.sink_ahead")
	r := j.start().running()
	r.checkpoints(3)
	n := stop()
	d.counted(n, 7)
	j.must("stop")
	r.ends(0)
	d.counted(n, 7)
	d.settled()
	free(t, b, out)
	everyNumberOnce(t, committed(t, b, out), n, 3)
}

// slowBrokers is a copy through the log, whose transactions live for a second.
const slowBrokers = common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}", delivery: wal, transaction_timeout: 1s }
`

// The brokers are away for longer than any transaction of the job lives, which the witness
// tells: a transaction of that age is aborted. What was published before is delivered after
// it, once: from a process that died before the delivery, and from one that died in it.
func TestLogOutlivesTransactions(t *testing.T) {
	t.Parallel()
	b := victim(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, slowBrokers, "IN="+in, "OUT="+out)
	rows := []string{}
	for i, point := range []string{"wal.deliver.before", "wal.kafka.written"} {
		v := []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}
		rows = append(rows, v...)
		produce(t, b, in, values(0, v...)...)
		j.faulty(point + ":1:kill").killed()
		witness := leaveOpen(t, b, out, time.Second)
		b.Kill(t)
		b.Restart(t)
		eventually(t, "the witness is aborted", func() bool {
			open := true
			admin(t, b, "list transactions", func(adm *kadm.Client) error {
				ids, err := adm.ListTransactions(t.Context(), nil, []string{"Ongoing"})
				if err == nil { // the coordinator may still read its log
					_, open = ids[witness]
				}
				return nil
			})
			return !open
		})
		r := j.start().running()
		eventually(t, "the rows are there", func() bool { return len(rowsOf(committed(t, b, out))) == len(rows) })
		j.must("stop")
		r.ends(0)
		exactly(t, b, out, rows...)
		free(t, b, out)
	}
}

// leaveOpen writes in a transaction and leaves it to the broker.
func leaveOpen(t testing.TB, b *kafkatest.Broker, topic string, timeout time.Duration) (id string) {
	t.Helper()
	id = "witness-" + fmt.Sprint(jobs.Add(1))
	cl, err := b.NewClient(kgo.TransactionalID(id), kgo.TransactionTimeout(timeout))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("never seen")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return id
}

func rowsOf(parts map[int32][]*kgo.Record) (all []*kgo.Record) {
	for _, rs := range parts {
		all = append(all, rs...)
	}
	return all
}

// hook is an endpoint that keeps what it is sent, by key.
type hook struct {
	t    testing.TB
	addr string

	mu       sync.Mutex
	srv      *http.Server
	bodies   map[string]string
	order    []string // keys in the order they came first
	repeated int
	sick     int // so many requests are answered 503
}

func newHook(t testing.TB) *hook {
	t.Helper()
	port, err := testservice.FreePort() // stays free while nobody listens
	if err != nil {
		t.Fatal(err)
	}
	h := &hook{t: t, addr: testservice.Loopback(port), bodies: map[string]string{}}
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *hook) open() {
	l, err := net.Listen("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.srv = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(l) }(h.srv)
}

func (h *hook) close() { _ = h.srv.Close() }

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sick > 0 {
		h.sick--
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	old, known := h.bodies[key]
	if known && old != string(b) {
		h.t.Errorf("%s came with two bodies", key)
	}
	if known {
		h.repeated++
	} else {
		h.order = append(h.order, key)
	}
	h.bodies[key] = string(b)
}

// numbers are what an endpoint that remembers keys has, in the order in which it came.
func (h *hook) numbers() (ns []int, repeated int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range h.order {
		var rows []row
		if err := json.Unmarshal([]byte(h.bodies[key]), &rows); err != nil {
			h.t.Errorf("%s: %v", key, err)
		}
		for _, r := range rows {
			ns = append(ns, r.N)
		}
	}
	return ns, h.repeated
}

// publishes waits until the running job has completed n more checkpoints, whether or not
// they are confirmed.
func (j *job) publishes(n int) {
	j.t.Helper()
	seen := map[string]bool{}
	for _, id := range j.checkpoints() {
		seen[id] = true
	}
	eventually(j.t, fmt.Sprintf("%d more checkpoints", n), func() bool {
		for _, id := range j.checkpoints() {
			if !seen[id] {
				seen[id] = true
				n--
			}
		}
		return n <= 0
	})
}

const hooking = common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
sinks:
  hook:
    type: http
    inputs: [in]
    url: http://${HOOK}/in
    batch: { max_rows: 7 }
    retry: { initial: 10ms, max: 200ms }
    timeout: 10s
`

// At least once to an endpoint, and once to one that remembers keys: the process is killed
// at every point of a delivery, the endpoint answers that it is busy, and goes away and
// comes back. A start does not wait for it: the job reads on, and takes checkpoints.
func TestHook(t *testing.T) {
	t.Parallel()
	b, h := kafkatest.Shared(t), newHook(t)
	in := b.Topic(t, 1)
	j := newJob(t, b, hooking, "IN="+in, "HOOK="+h.addr)
	if plan := j.must("plan").All; !strings.Contains(plan, "at_least_once") || !strings.Contains(plan, "duplicates carry the same key") {
		t.Errorf("the plan does not say what is given: %s", plan)
	}
	stop := feed(t, b, in, 7, 1)
	for _, plan := range []string{"wal.delivered:1", "wal.http.answered:9", "wal.deliver.before:3", "wal.uploaded:2", "wal.delivered:4"} {
		h.mu.Lock()
		h.sick = 3
		h.mu.Unlock()
		j.faulty(plan + ":kill").killed()
	}
	h.close()
	r := j.start().running()
	j.publishes(3) // with what is in the log undelivered
	r.kill()
	r = j.start().running()
	j.publishes(2)
	h.open()
	n := stop()
	eventually(t, "all is delivered", func() bool { ns, _ := h.numbers(); return len(ns) >= n })
	j.must("stop")
	r.ends(0)
	ns, repeated := h.numbers()
	if len(ns) != n || !slices.IsSorted(ns) {
		t.Errorf("%d of %d numbers, in order: %v", len(ns), n, slices.IsSorted(ns))
	}
	for i := range min(len(ns), n) {
		if ns[i] != i {
			t.Fatalf("%d is where %d should be", ns[i], i)
		}
	}
	if repeated == 0 {
		t.Error("no request was repeated: the kills proved nothing")
	}
}

// Whoever cancels a job does not wait for an endpoint that is away: what is published stays in
// the log, and the next start delivers it before what comes after it.
func TestHookCancelled(t *testing.T) {
	t.Parallel()
	b, h := kafkatest.Shared(t), newHook(t)
	h.close()
	in := b.Topic(t, 1)
	j := newJob(t, b, hooking, "IN="+in, "HOOK="+h.addr)
	produce(t, b, in, numbered(0, 20, 7, 1)...)
	r := j.start().running()
	j.publishes(2)
	j.must("cancel")
	r.ends(0)
	h.open()
	produce(t, b, in, numbered(20, 30, 7, 1)...)
	r = j.start().running()
	eventually(t, "all is delivered", func() bool { ns, _ := h.numbers(); return len(ns) >= 30 })
	j.must("stop")
	r.ends(0)
	if ns, _ := h.numbers(); len(ns) != 30 || !slices.IsSorted(ns) {
		t.Errorf("%v", ns)
	}
}

// Under checkpoint.mode at_least_once rows wait for their checkpoint as well.
func TestHookAtLeastOnce(t *testing.T) {
	t.Parallel()
	b, h := kafkatest.Shared(t), newHook(t)
	in := b.Topic(t, 1)
	j := newJob(t, b, strings.Replace(hooking, "checkpoint: {", "checkpoint: { mode: at_least_once,", 1), "IN="+in, "HOOK="+h.addr)
	produce(t, b, in, numbered(0, 20, 7, 1)...)
	j.faulty("wal.delivered:1:kill").killed()
	r := j.start().running()
	eventually(t, "all is delivered", func() bool { ns, _ := h.numbers(); return len(ns) >= 20 })
	j.must("stop")
	r.ends(0)
	if ns, repeated := h.numbers(); len(ns) != 20 || repeated == 0 {
		t.Errorf("%v, %d repeated", ns, repeated)
	}
}
