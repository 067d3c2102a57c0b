// Package control lets one process ask a running job of another for something:
// stop, cancel, a checkpoint, its status. It is HTTP over a unix socket, one
// socket per attempt, <dir>/control.<attempt>.sock with mode 0600: whoever may
// write the job's data may control it, nobody else can.
//
// Every answer carries the attempt, and a client talks to the highest attempt
// that answers, so that a stopped process that wakes up again is not mistaken for
// its successor.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"etl/pipeline"
	"etl/stream"
)

// Reply is the answer to every request.
type Reply struct {
	OK      bool           `json:"ok"`
	Attempt stream.Attempt `json:"attempt"`
	// Checkpoint is the one that was asked for; of a job that has ended, the one from
	// which the next run goes on.
	Checkpoint stream.CheckpointID `json:"checkpoint,omitempty"`
	Status     *pipeline.Status    `json:"status,omitempty"`
	Code       string              `json:"code,omitempty"`
	Error      string              `json:"error,omitempty"`
}

// maxPath is the longest path a unix socket may have, less one (sun_path).
const maxPath = 107

// socketPath returns where an attempt's socket lies. A folder whose name is too
// long for sockets gets them in the system's folder for temporary files.
func socketPath(dir string, a stream.Attempt) string {
	p := filepath.Join(dir, fmt.Sprintf("control.%d.sock", a))
	if len(p) <= maxPath {
		return p
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return filepath.Join(os.TempDir(), fmt.Sprintf("etl-%016x.%d.sock", h.Sum64(), a))
}

// Server serves the socket of the attempt that runs now.
type Server struct {
	job  pipeline.Controller
	dir  string
	log  func(msg string, args ...any)
	done chan struct{} // closed once the job has ended
	err  error

	http    *http.Server
	path    string
	attempt stream.Attempt
}

// NewServer returns the server of a job whose data lies in dir. Listen must be
// called for every attempt, Ended once.
func NewServer(job pipeline.Controller, dir string, log func(msg string, args ...any)) *Server {
	return &Server{job: job, dir: dir, log: log, done: make(chan struct{})}
}

// Listen moves the server to the socket of an attempt.
func (s *Server) Listen(a stream.Attempt) error {
	if s.attempt == a {
		return nil
	}
	s.close()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	path := socketPath(s.dir, a)
	_ = os.Remove(path) // of a process that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	s.path, s.attempt = path, a
	s.http = &http.Server{Handler: s.handler(a), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	go func(srv *http.Server) {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log("the control socket failed", "error", err)
		}
	}(s.http)
	return nil
}

// Ended tells those who wait for the job's end how it ended, and closes the
// socket once they have their answers, or after a second.
func (s *Server) Ended(err error) {
	s.err = err
	close(s.done)
	if s.http == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log("the control socket was closed before all answers were given", "error", err)
	}
	_ = os.Remove(s.path)
}

func (s *Server) close() {
	if s.http != nil {
		_ = s.http.Close()
		_ = os.Remove(s.path)
	}
}

func (s *Server) handler(a stream.Attempt) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		st := s.job.Status()
		reply(w, Reply{OK: true, Attempt: a, Status: &st})
	})
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) { s.end(w, r, a, s.job.Stop) })
	mux.HandleFunc("POST /v1/cancel", func(w http.ResponseWriter, r *http.Request) { s.end(w, r, a, s.job.Cancel) })
	mux.HandleFunc("POST /v1/checkpoint", func(w http.ResponseWriter, r *http.Request) {
		id, err := s.job.Checkpoint(r.Context())
		reply(w, outcome(Reply{Attempt: a, Checkpoint: id}, err))
	})
	return mux
}

// end asks the job to end and answers when it has.
func (s *Server) end(w http.ResponseWriter, r *http.Request, a stream.Attempt, ask func()) {
	ask()
	select {
	case <-s.done:
		st := s.job.Status()
		reply(w, outcome(Reply{Attempt: a, Checkpoint: max(st.Restored, st.Published), Status: &st}, s.err))
	case <-r.Context().Done():
	}
}

func outcome(r Reply, err error) Reply {
	r.OK = err == nil
	if err != nil {
		r.Error, r.Code = err.Error(), stream.CodeOf(err)
	}
	return r
}

func reply(w http.ResponseWriter, r Reply) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // the client is gone: nobody to tell
}

// While an attempt ends and the next begins nobody listens: an answer that is lost is
// asked for again this often, and so long apart.
const (
	askAgain   = 50
	askAgainIn = 200 * time.Millisecond
)

// Ask sends one request (status, stop, cancel, checkpoint) to the running job whose data
// lies in dir, and waits for its answer. An attempt that ends takes its socket with it:
// the question is put to the next one, all of which may be asked twice.
func Ask(ctx context.Context, clock stream.Clock, dir, what string) (Reply, error) {
	var heard stream.Attempt // the highest that took the question
	for lost := 0; ; lost++ {
		r, by, err := askAll(ctx, dir, what)
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil:
			return r, context.Cause(ctx)
		case by > heard:
			heard, lost = by, 0
		case heard == 0:
			return r, stream.Errorf(stream.Environment, "control.not_running", what, dir, "no process of this job answers").
				WithFix("start it with: etl run FILE")
		case lost > askAgain:
			return r, stream.Errorf(stream.Environment, "control.lost", what, dir, "the process that was asked is gone, and its answer with it").
				WithFix("see what it logged; etl status FILE says whether another one runs")
		}
		if err := clock.Sleep(ctx, askAgainIn); err != nil {
			return r, context.Cause(ctx)
		}
	}
}

var errNobody = errors.New("nobody listens")

// askAll asks the attempts, the highest first, and returns the one that took the
// question, though its answer may be lost; 0 for none.
func askAll(ctx context.Context, dir, what string) (r Reply, by stream.Attempt, err error) {
	err = errNobody
	for _, a := range attempts(dir) {
		if r, err = ask(ctx, socketPath(dir, a), what); err == nil || ctx.Err() != nil {
			return r, a, err
		}
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return r, a, err
		}
	}
	return r, 0, err
}

// attempts returns the numbers of the sockets of dir, highest first. Those with long
// numbers may lie elsewhere than those with short ones.
func attempts(dir string) (out []stream.Attempt) {
	for _, place := range []string{dir, os.TempDir()} {
		files, _ := os.ReadDir(place)
		for _, f := range files {
			parts := strings.Split(f.Name(), ".")
			if len(parts) != 3 {
				continue
			}
			a, err := strconv.ParseUint(parts[1], 10, 32)
			if err == nil && socketPath(dir, stream.Attempt(a)) == filepath.Join(place, f.Name()) {
				out = append(out, stream.Attempt(a))
			}
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

func ask(ctx context.Context, path, what string) (r Reply, err error) {
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	method := http.MethodPost
	if what == "status" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://job/v1/"+what, nil)
	if err != nil {
		return r, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, json.NewDecoder(resp.Body).Decode(&r)
}
