package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// answer is the object that every command prints with --json.
type answer struct {
	OK     bool            `json:"ok"`
	Result json.RawMessage `json:"result"`
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Tool runs a command of the binary on the job's file and returns the exit code
// with what it printed.
func (j *Job) Tool(ctx context.Context, binary string, words ...string) (a answer, code int, err error) {
	cmd := exec.CommandContext(ctx, binary, append(words, "--json", "--data-dir", j.Dir)...)
	cmd.Env = append(os.Environ(), passwordEnv+"="+j.broker.password, dsnEnv+"="+j.dsn)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return a, -1, err
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &a); err != nil {
		return a, cmd.ProcessState.ExitCode(), fmt.Errorf("%v printed %q, and said %q", words, out.String(), said.String())
	}
	return a, cmd.ProcessState.ExitCode(), nil
}

// address waits for the place of a worker's metrics.
func (w *Worker) address(limit time.Duration) string {
	l := w.Await(limit, func(l Line) bool { return l.Msg() == "health and metrics" })
	if l == nil {
		return ""
	}
	s, _ := l.Fields["address"].(string)
	return s
}

// Metrics reads a worker's metrics: name and labels as they are printed.
func (w *Worker) Metrics(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.address(5*time.Second)+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	m := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		i := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if strings.HasPrefix(line, "#") || i < 0 {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
			m[line[:i]] = v
		}
	}
	return m, nil
}

// sum adds up the values of a metric over its labels.
func sum(m map[string]float64, name string) (total float64) {
	for k, v := range m {
		if k == name || strings.HasPrefix(k, name+"{") {
			total += v
		}
	}
	return total
}

// positions are the next offsets a worker will read, by partition.
func positions(m map[string]float64) map[int32]int64 {
	out := map[int32]int64{}
	for k, v := range m {
		if !strings.HasPrefix(k, "etl_source_position_offset{") {
			continue
		}
		_, rest, _ := strings.Cut(k, `partition="`)
		n, _, _ := strings.Cut(rest, `"`)
		if p, err := strconv.Atoi(n); err == nil {
			out[int32(p)] = int64(v)
		}
	}
	return out
}

// AwaitRead waits until the worker has read the input to its end.
func (j *Job) AwaitRead(ctx context.Context, w *Worker) error {
	ends, err := j.broker.ends(ctx, false, j.In())
	if err != nil {
		return err
	}
	return j.awaitAt(ctx, w, ends)
}

// awaitAt waits until the worker has read up to the ends.
func (j *Job) awaitAt(ctx context.Context, w *Worker, ends map[spot]int64) error {
	for {
		m, err := w.Metrics(ctx)
		at := positions(m)
		behind := err != nil
		for s, end := range ends {
			behind = behind || at[s.part] < end
		}
		if !behind {
			return nil
		}
		if !running(w) {
			return fmt.Errorf("the worker ended before it had read everything: %s", w.Ended())
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the worker has read up to %v of %v: %w", at, ends, err)
		}
	}
}

func running(w *Worker) bool {
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}
