package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"etl/stream"
)

// Check is one condition of /readyz.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Ready returns whether the job works: it has restored and runs, and its last
// checkpoint is not too old.
func (t *Telemetry) Ready() (ok bool, checks []Check) {
	t.mu.Lock()
	defer t.mu.Unlock()
	running := t.restored && (t.phase == "running" || t.phase == "draining")
	checks = []Check{{"running", running, t.phase}, t.ageCheck()}
	return checks[0].OK && checks[1].OK, checks
}

// ageCheck counts from the start while there is no checkpoint yet.
func (t *Telemetry) ageCheck() Check {
	from, what := t.completed, "last checkpoint "+t.completedID.String()
	if from.IsZero() {
		from, what = t.begun, "no checkpoint yet, started"
	}
	age := t.o.Clock.Now().Sub(from).Round(time.Millisecond)
	ok := t.o.MaxCheckpointAge == 0 || age <= t.o.MaxCheckpointAge
	detail := fmt.Sprintf("%s %v ago", what, age)
	if !ok {
		detail += fmt.Sprintf(", more than %v", t.o.MaxCheckpointAge)
	}
	return Check{"checkpoint", ok, detail}
}

// Handler serves /metrics, /livez and /readyz to this machine: requests whose Host
// is not a loopback name are refused, so that no page in a browser can reach it
// through a name of its own (DNS rebinding).
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"ok": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ok, checks := t.Ready()
		status := http.StatusOK
		if !ok {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, map[string]any{"ok": ok, "pipeline": t.o.Pipeline, "checks": checks})
	})
	return guard(mux)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody to tell
}

// guard refuses foreign hosts and sets what browsers ask for.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if !loopback(r.Host) {
			http.Error(w, "this address answers on loopback names only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a Host header names this machine as itself.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Serve listens on addr, which must be a loopback address, and serves Handler
// until ctx ends. It returns the address it got once it listens; the channel gives
// the end of the server.
func (t *Telemetry) Serve(ctx context.Context, addr string) (net.Addr, <-chan error, error) {
	if !loopback(addr) {
		return nil, nil, stream.Errorf(stream.BadConfig, "http.not_loopback", "listen", addr, "the address can be reached from other machines").WithFix("use 127.0.0.1")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, stream.Errorf(stream.Environment, "http.listen", "listen", addr, "%w", err).WithFix("set http.address to a free port, or none")
	}
	s := &http.Server{Handler: t.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // ends Serve, which reports
	go func() {
		defer stop()
		err := s.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		done <- err
	}()
	return l.Addr(), done, nil
}
