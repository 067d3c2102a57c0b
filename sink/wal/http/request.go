package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"etl/stream"
)

// verdict is what a status means for the rows of its request.
type verdict uint8

const (
	taken verdict = iota
	later
	misplaced // the request as such is wrong, whatever its rows are
	refused
)

// judge is pure.
func judge(status int) verdict {
	switch {
	case status >= 200 && status < 300:
		return taken
	case status >= 500:
		return later
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return later // 409: a request with this key is under way
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusProxyAuthRequired, http.StatusGone, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusUpgradeRequired:
		return misplaced
	}
	if status < 400 {
		return misplaced
	}
	return refused
}

// laterError is an answer after which the same request may succeed.
type laterError struct {
	after time.Duration // that the endpoint asks for; 0: it does not say
	err   error
}

func (e *laterError) Error() string { return e.err.Error() }

func (e *laterError) Unwrap() error { return e.err }

// refusedError is an answer that a row is to blame for.
type refusedError struct {
	status int
	answer string
}

func (e *refusedError) Error() string { return fmt.Sprintf("status %d", e.status) }

// answerBytes is how much of an answer is kept with a row that is put aside; the rest is
// read, up to drainBytes, so that the connection can be used again.
const (
	answerBytes = 1000
	drainBytes  = 64 << 10
)

// request makes one request. Answers are errors of the classes above, or nil.
func (d *delivery) request(ctx context.Context, key string, rows []item) error {
	cfg := &d.b.cfg
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, cfg.Method, cfg.URL, bytes.NewReader(body(d.plan.Format, rows)))
	if err != nil {
		return stream.Errorf(stream.BadConfig, "http.url", "make request", "", "%w", withoutURL(err))
	}
	for name, values := range cfg.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "etl")
	}
	req.Header.Set("Content-Type", map[Format]string{JSON: "application/json", JSONLines: "application/x-ndjson"}[d.plan.Format])
	req.Header.Set("Idempotency-Key", key)
	resp, err := d.b.client.Do(req)
	if err != nil {
		return again(0, "http.no_answer", host(cfg.URL), withoutURL(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, drainBytes))
	}
	switch judge(resp.StatusCode) {
	case taken:
		return nil // the status is the answer, whether or not all of the rest came
	case later:
		return again(retryAfter(resp.Header, d.b.env.Clock.Now()), "http.status", host(cfg.URL), fmt.Errorf("status %d", resp.StatusCode))
	case misplaced:
		return misplacedError(resp, cfg.URL)
	}
	if err != nil {
		answer = append(answer, "..."...)
	}
	return &refusedError{status: resp.StatusCode, answer: string(answer)}
}

func again(after time.Duration, code, host string, err error) error {
	return &laterError{after: after, err: stream.Errorf(stream.Retry, code, "deliver", host, "%w", err)}
}

func misplacedError(resp *http.Response, endpoint string) error {
	e := stream.Errorf(stream.Environment, "http.endpoint", "deliver", host(endpoint), "the endpoint answers with status %d, whatever the rows are; they stay in the log", resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return e.WithFix("check the credentials under secret_headers:, and start the job again")
	}
	if resp.StatusCode < 400 {
		return e.WithFix("it sends elsewhere: set url: to where it really is (host %s)", host(resp.Header.Get("Location")))
	}
	return e.WithFix("check url: and method:, and start the job again")
}

// host is what messages say of an address: its path and query may hold secrets.
func host(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "the endpoint"
	}
	return u.Host
}

// withoutURL takes the address out of an error of net/http.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseInt(v, 10, 32); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// body puts rows together.
func body(f Format, rows []item) []byte {
	size := 2
	for i := range rows {
		size += len(rows[i].json) + 1
	}
	b := make([]byte, 0, size)
	if f == JSONLines {
		for i := range rows {
			b = append(appendLine(b, rows[i].json), '\n')
		}
		return b
	}
	b = append(b, '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, rows[i].json...)
	}
	return append(b, ']')
}

// appendLine writes a row on one line: between tokens of JSON a line end is a space, and
// inside of them there is none.
func appendLine(b, row []byte) []byte {
	for _, c := range row {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// key is what the keys of an epoch begin with.
func (d *delivery) key() string {
	env := &d.b.env
	return strings.Join([]string{url.PathEscape(env.Job), url.PathEscape(string(env.UID)), env.Lineage.Short(), d.e.Checkpoint.String(), strconv.Itoa(d.e.Subtask)}, "/")
}
