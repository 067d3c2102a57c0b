package http

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/sink"
	"etl/stream"
)

// pauses is a clock that remembers what it was asked to wait for, and waits for none of it.
type pauses struct {
	stream.SystemClock
	asked []time.Duration
}

func (p *pauses) Sleep(ctx context.Context, d time.Duration) error {
	p.asked = append(p.asked, d)
	return ctx.Err()
}

// run is one attempt of a job with one subtask, as far as its sink sees it.
type run struct {
	*testing.T
	st    checkpoint.Storage
	clock *pauses
	log   strings.Builder
	a     *checkpoint.Attempt
	w     sink.Writer
	c     sink.Committer
	u     *checkpoint.Uploader
	n     uint32
	bad   int
}

func start(t *testing.T, st checkpoint.Storage, cfg Config) *run {
	t.Helper()
	r := &run{T: t, st: st, clock: &pauses{}}
	w := stream.SystemWorld(slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	a, err := checkpoint.OpenAttempt(t.Context(), st, checkpoint.AttemptOptions{World: w, Holder: checkpoint.Holder{Host: "test"}})
	r.must(err)
	r.a, r.u = a, checkpoint.NewUploader(checkpoint.UploaderOptions{Storage: st, World: w, Lineage: a.Lineage(), Attempt: a.Number()})
	cfg.SpillDir = t.TempDir()
	if c := cfg.WithDefaults(); len(c.Problems()) > 0 {
		t.Fatal(c.Problems())
	}
	s := New(cfg)
	r.w, r.c = s.NewWriter(), s.NewCommitter()
	w.Clock = r.clock
	r.must(r.c.Open(t.Context(), sink.CommitEnv{World: w, Job: "shop", Lineage: a.Lineage(), Attempt: a.Number(), UID: "hook", Objects: checkpoint.NewObjects(st)}))
	r.must(r.w.Open(t.Context(), stream.Env{World: w, Job: "shop", Lineage: a.Lineage(), Attempt: a.Number(), UID: "hook", Parallelism: 1, MaxParallelism: 128}, nil))
	t.Cleanup(func() { _, _ = r.w.Close(), r.c.Close(); r.u.Close() })
	return r
}

func (r *run) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// Reject implements sink.Output.
func (r *run) Reject(stream.Record, error) { r.bad++ }

// publish writes the rows 0 to n and takes a checkpoint up to its publication.
func (r *run) publish(n int) (checkpoint.Permit, checkpoint.Committable) {
	r.Helper()
	b := stream.NewBatch(&stream.Schema{Format: stream.JSON})
	for i := range n {
		b.Append(stream.Record{Value: fmt.Appendf(nil, "{\"n\": %d,\n \"key\": \"k\"}", i), Topic: "in", Partition: 1, Offset: int64(100 + i), Pos: -1})
	}
	r.must(r.w.Write(r.Context(), b, r))
	r.n++
	id := stream.NewCheckpointID(r.a.Number(), r.n)
	p, err := r.w.PrepareCommit(r.Context(), id, r)
	r.must(err)
	got, err := p.Finish(r.Context(), r.u)
	r.must(err)
	permit, err := r.a.Publish(r.Context(), &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "shop", Lineage: r.a.Lineage(), ID: id, Kind: "periodic", Mode: "exactly_once", MaxParallelism: 128, Committables: got.Committables})
	r.must(err)
	r.w.Published(id)
	return permit, got.Committables[0]
}

// deliver commits until the outcome is known, at most 50 times.
func (r *run) deliver(p checkpoint.Permit, c checkpoint.Committable) (res sink.Result, err error) {
	for range 50 {
		if res, err = r.c.Commit(r.Context(), p, c); err != nil || res.Outcome != sink.Transient {
			return res, err
		}
	}
	return res, nil
}

func numbers(n int) (s string) {
	for i := range n {
		s += fmt.Sprint(i, " ")
	}
	return strings.TrimSpace(s)
}

// Rows go out in order, cut into requests, each with its own key.
func TestRequests(t *testing.T) {
	for format, contentType := range map[Format]string{JSON: "application/json", JSONLines: "application/x-ndjson"} {
		e := newEndpoint(t)
		r := start(t, memstore.New("x"), Config{URL: e.url(), Format: format, MaxRows: 4, Headers: http.Header{"Authorization": {"Bearer canary"}}})
		res, err := r.deliver(r.publish(10))
		if err != nil || res.Outcome != sink.Done || e.kept() != numbers(10) {
			t.Fatalf("%+v, %v: %s", res, err, e.kept())
		}
		for i, q := range e.seen() {
			want := fmt.Sprintf("shop/hook/%s/1.1/0/%d", r.a.Lineage().Short(), i)
			if q.key != want || q.contentType != contentType || q.header.Get("Authorization") != "Bearer canary" {
				t.Errorf("request %d: key %s instead of %s, %s, %v", i, q.key, want, q.contentType, q.header)
			}
			if rows := strings.Count(q.body, `"key"`); rows != []int{4, 4, 2}[i] {
				t.Errorf("request %d has %d rows", i, rows)
			}
		}
		if strings.Contains(r.log.String(), "canary") {
			t.Errorf("the log tells a secret: %s", r.log.String())
		}
	}
}

// What the endpoint asks for is waited for; else pauses grow, up to a bound, and start
// anew after an answer. Every try has the same key and the same bytes.
func TestRetries(t *testing.T) {
	e := newEndpoint(t)
	e.answer = func(n int, _ *http.Request, _ []row) (int, map[string]string) {
		switch n {
		case 0:
			return 429, map[string]string{"Retry-After": "7"}
		case 1, 2, 3, 4, 5:
			return []int{500, 503, 408, 409, 425}[n-1], nil
		case 6:
			return 503, map[string]string{"Retry-After": "86400"}
		case 8:
			return 502, nil
		}
		return 0, nil
	}
	r := start(t, memstore.New("x"), Config{URL: e.url(), MaxRows: 5, RetryInitial: time.Second, RetryMax: 10 * time.Second})
	res, err := r.deliver(r.publish(10))
	if err != nil || res.Outcome != sink.Done || e.kept() != numbers(10) {
		t.Fatalf("%+v, %v: %s", res, err, e.kept())
	}
	s := time.Second
	if want := []time.Duration{7 * s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s, 10 * s, s}; !slices.Equal(r.clock.asked, want) {
		t.Errorf("paused for %v instead of %v", r.clock.asked, want)
	}
	for i, q := range e.seen() {
		first := e.seen()[0]
		if i > 7 {
			first = e.seen()[8]
		}
		if q.key != first.key || q.body != first.body {
			t.Errorf("try %d: %s %s, the first one: %s %s", i, q.key, q.body, first.key, first.body)
		}
	}
	if strings.Contains(r.log.String(), "canary") {
		t.Errorf("the log tells a secret: %s", r.log.String())
	}
}

// An endpoint that is away, in the middle of an epoch, is waited for by the next attempt as
// well: what it gets twice has the same key and the same bytes, though the file asks for
// requests of another size by then.
func TestSameKeysAcrossRestarts(t *testing.T) {
	e := newEndpoint(t)
	st := memstore.New("x")
	e.answer = func(n int, _ *http.Request, _ []row) (int, map[string]string) {
		if n == 2 {
			return 503, nil
		}
		return 0, nil
	}
	r := start(t, st, Config{URL: e.url(), MaxRows: 3})
	p, c := r.publish(10)
	if res, err := r.c.Commit(t.Context(), p, c); err != nil || res.Outcome != sink.Transient {
		t.Fatalf("%+v, %v", res, err)
	}
	next := start(t, st, Config{URL: e.url(), MaxRows: 7, Format: JSONLines})
	permit, err := next.a.Restored(c.Checkpoint)
	next.must(err)
	if res, err := next.deliver(permit, c); err != nil || res.Outcome != sink.Done {
		t.Fatalf("%+v, %v", res, err)
	}
	var distinct []string
	bodies := map[string]string{}
	for _, q := range e.seen() {
		if old, ok := bodies[q.key]; ok && old != q.body {
			t.Errorf("%s: %s, then %s", q.key, old, q.body)
		} else if !ok {
			distinct = append(distinct, q.key)
		}
		bodies[q.key] = q.body
	}
	if len(distinct) != 4 || len(e.seen()) != 7 {
		t.Errorf("%d requests with the keys %v", len(e.seen()), distinct)
	}
}

// Of a request that is refused only the rows to blame are, and they are kept with all that
// is known. Without anybody who wants them kept the job stops.
func TestRowsRefused(t *testing.T) {
	for _, sorted := range []bool{true, false} {
		e := newEndpoint(t)
		e.answer = func(_ int, _ *http.Request, rows []row) (int, map[string]string) {
			for _, r := range rows {
				if r.N == 3 || r.N == 8 {
					return 422, nil
				}
			}
			if len(rows) > 4 {
				return 413, nil
			}
			return 0, nil
		}
		st := memstore.New("x")
		r := start(t, st, Config{URL: e.url(), Sort: sorted, MaxRows: 10})
		res, err := r.deliver(r.publish(10))
		if !sorted {
			if stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "http.row_after_publish" || !strings.Contains(err.Error(), "in/1@103") {
				t.Errorf("%+v, %v", res, err)
			}
			continue
		}
		if err != nil || res.Outcome != sink.Done || res.Rejects != 2 || e.kept() != "0 1 2 4 5 6 7 9" {
			t.Fatalf("%+v, %v: %s", res, err, e.kept())
		}
		keys := map[string]string{}
		for _, q := range e.seen() {
			if old, ok := keys[q.key]; ok && old != q.body {
				t.Errorf("the key %s was used for %s and for %s", q.key, old, q.body)
			}
			keys[q.key] = q.body
		}
		names, err := st.List(t.Context(), "rejects/")
		if err != nil || len(names) != 1 || names[0].Name != fmt.Sprintf("rejects/hook/%s-1.1-0-1.jsonl", r.a.Lineage().Short()) {
			t.Fatalf("%v, %v", names, err)
		}
		b, err := st.Get(t.Context(), names[0].Name)
		r.must(err)
		var got []reject
		for line := range strings.Lines(string(b)) {
			var x reject
			r.must(json.Unmarshal([]byte(line), &x))
			got = append(got, x)
		}
		if len(got) != 2 || got[1].Offset != 108 || got[1].Topic != "in" || got[1].Status != 422 || got[1].Answer != "status 422" || string(got[1].Row) != `{"n":8,"key":"k"}` || !strings.HasSuffix(got[1].Key, "/0/8-9") {
			t.Errorf("%+v", got)
		}
	}
}

// What is wrong with the endpoint, and not with rows, stops the job, which keeps them all:
// no row is put aside because a token has expired.
func TestMisplaced(t *testing.T) {
	for _, status := range []int{301, 307, 401, 403, 404, 405, 410, 415} {
		e := newEndpoint(t)
		e.answer = func(int, *http.Request, []row) (int, map[string]string) {
			return status, map[string]string{"Location": "https://elsewhere.example/new?token=canary"}
		}
		r := start(t, memstore.New("x"), Config{URL: e.url(), Sort: true})
		p, c := r.publish(3)
		_, err := r.deliver(p, c)
		if stream.ClassOf(err) != stream.Environment || len(e.seen()) != 1 || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%d: %v after %d requests", status, err, len(e.seen()))
		}
		e.answer = nil
		if res, err := r.deliver(p, c); err != nil || res.Outcome != sink.Done || e.kept() != numbers(3) {
			t.Errorf("%d, mended: %+v, %v", status, res, err)
		}
	}
}

// A value that is not JSON would make its whole request unreadable.
func TestNotJSON(t *testing.T) {
	e := newEndpoint(t)
	r := start(t, memstore.New("x"), Config{URL: e.url()})
	b := stream.NewBatch(nil)
	b.Append(stream.Record{Value: []byte(`{"n":`), Pos: -1})
	r.must(r.w.Write(t.Context(), b, r))
	res, err := r.deliver(r.publish(2))
	if err != nil || res.Outcome != sink.Done || r.bad != 1 || e.kept() != "0 1" {
		t.Errorf("%+v, %v: %d rejected, kept %s", res, err, r.bad, e.kept())
	}
}

// An answer that does not come within the timeout is none.
func TestTimeout(t *testing.T) {
	e := newEndpoint(t)
	e.answer = func(n int, r *http.Request, _ []row) (int, map[string]string) {
		if n == 0 {
			<-r.Context().Done() // the client gives up
		}
		return 0, nil
	}
	r := start(t, memstore.New("x"), Config{URL: e.url(), Timeout: 50 * time.Millisecond})
	if res, err := r.deliver(r.publish(1)); err != nil || res.Outcome != sink.Done {
		t.Fatalf("%+v, %v", res, err)
	}
	if q := e.seen(); len(q) < 2 || q[0].key != q[1].key {
		t.Errorf("%+v", q)
	}
}

func TestJudge(t *testing.T) {
	names := map[verdict]string{taken: "taken", later: "later", misplaced: "misplaced", refused: "refused"}
	for status, want := range map[int]verdict{200: taken, 204: taken, 299: taken, 301: misplaced, 304: misplaced, 400: refused, 401: misplaced,
		402: refused, 404: misplaced, 408: later, 409: later, 413: refused, 418: refused, 422: refused, 425: later, 429: later, 451: refused, 500: later, 501: later, 503: later, 599: later} {
		if got := judge(status); got != want {
			t.Errorf("%d: %s, want %s", status, names[got], names[want])
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{"": 0, "5": 5 * time.Second, " 0 ": 0, "-3": 0, "x": 0,
		"Sun, 29 Nov 2026 12:01:00 GMT": time.Minute, "Sun, 29 Nov 2026 11:00:00 GMT": 0} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for want, c := range map[string]Config{
		"http.url":     {URL: "localhost"},
		"http.method":  {URL: "http://x", Method: "GET"},
		"http.format":  {URL: "http://x", Format: "xml"},
		"http.batch":   {URL: "http://x", MaxRows: -1},
		"http.timeout": {URL: "http://x", Timeout: -1},
		"http.retry":   {URL: "http://x", RetryInitial: time.Hour},
		"http.headers": {URL: "http://x", Headers: http.Header{"idempotency-key": {"1"}}},
	} {
		c = c.WithDefaults()
		errs := c.Problems()
		if len(errs) != 1 || stream.CodeOf(errs[0]) != want {
			t.Errorf("%s: %v", want, errs)
		}
	}
	for _, u := range []string{"https://user:canary@x/", "http://%zz"} {
		c := Config{URL: u}.WithDefaults()
		if errs := c.Problems(); len(errs) != 1 || strings.Contains(fmt.Sprint(errs), "canary") {
			t.Errorf("%s: %v", u, errs)
		}
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte("\x03in\x02\xc8\x01\x03{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if it, err := readRow(b); err == nil && len(it.json) == 0 {
			t.Error("a row without JSON")
		}
	})
}
