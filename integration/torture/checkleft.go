package torture

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// grace is how long checkers wait for what a busy broker has still to do, markers of
// transactions that it calls ended above all: what hangs does so for ever. Where something
// was found already, no more depends on it.
func (l *Life) grace() time.Duration {
	if l.OK() {
		return ownerPatience
	}
	return 5 * time.Second
}

// checkWatch compares what a reader saw at any time with what is there in the end:
// everything once, at the same place, and nothing else.
func (l *Life) checkWatch(ctx context.Context, all map[string]map[int32][]*kgo.Record) {
	want := map[spot]uint64{}
	for _, topic := range l.job.Outs() {
		for part, recs := range all[topic] {
			for _, r := range recs {
				want[spot{topic, part, r.Offset}] = digest(r)
			}
		}
	}
	limit := l.grace()
	for begin := time.Now(); l.watch.Seen() < len(want) && time.Since(begin) < limit; {
		if pause(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	saw, again := l.watch.Close()
	l.watch = nil
	for _, s := range again {
		l.Add(Reader, "a reader saw %v twice", s)
	}
	for s, d := range saw {
		if w, ok := want[s]; !ok || w != d {
			l.Add(Reader, "a reader saw something at %v that is not there in the end", s)
		}
	}
	if len(saw) < len(want) {
		l.Add(Reader, "a reader that follows has seen %d rows of %d", len(saw), len(want))
	}
}

// checkLeftovers: nothing holds readers back, no transaction of the job is open.
func (l *Life) checkLeftovers(ctx context.Context) error {
	var held string
	limit := l.grace()
	for begin := time.Now(); time.Since(begin) < limit; {
		var err error
		if held, err = l.leftovers(ctx); err == nil && held == "" || err != nil && !kerr.IsRetriable(err) {
			return err
		} else if err != nil {
			held = err.Error() // of a broker that is away for a moment
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	l.Add(Leftovers, "%s", held)
	return nil
}

func (l *Life) leftovers(ctx context.Context) (string, error) {
	stable, err := l.Broker.ends(ctx, true, l.job.Outs()...)
	if err != nil {
		return "", err
	}
	ends, err := l.Broker.ends(ctx, false, l.job.Outs()...)
	if err != nil {
		return "", err
	}
	for s, end := range ends {
		if stable[s] != end {
			return fmt.Sprintf("the last stable offset of %s/%d is %d, its end %d", s.topic, s.part, stable[s], end), nil
		}
	}
	held := ""
	err = l.Broker.admin(func(adm *kadm.Client) error {
		ts, err := adm.ListTransactions(ctx, nil, nil)
		for id, t := range ts {
			if strings.HasPrefix(id, "etl."+l.Job.Name+".") && !settledState[t.State] {
				d, err := adm.DescribeTransactions(ctx, id)
				held = fmt.Sprintf("transaction %s is left in state %s: %v %v", id, t.State, d[id].Topics, err)
			}
		}
		return err
	})
	return held, err
}

var settledState = map[string]bool{"Empty": true, "CompleteCommit": true, "CompleteAbort": true, "Dead": true}

// The canaries must not be in anything that a worker says or leaves on disk; what
// is of records may be in its state.
func (l *Life) checkFiles() {
	dir := filepath.Dir(l.job.Dir)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == l.job.File {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if l.Broker.password != "" && bytes.Contains(b, []byte(l.Broker.password)) {
			l.Add(Logs, "%s holds the password", filepath.Base(path))
		}
		if strings.HasSuffix(path, ".log") && bytes.Contains(b, []byte(payload)) {
			l.Add(Logs, "%s holds the payload of a record", filepath.Base(path))
		}
		return nil
	})
	if err != nil {
		l.Add(Logs, "%v", err)
	}
}

// checkLog looks at what a worker said: no panic, and for every restart and every
// failed end one line that names the cause.
func (l *Life) checkLog(w *Worker, lines []Line) {
	causes := 0
	for _, x := range lines {
		if strings.HasPrefix(x.Text, "panic:") || strings.HasPrefix(x.Text, "fatal error:") || strings.Contains(x.Text, "invariant") {
			l.Add(Logs, "%s: %s", filepath.Base(w.Log), x.Text)
		}
		switch x.Msg() {
		case "restarting from the last checkpoint":
			if c, _ := x.Fields["cause"].(string); c == "" {
				l.Add(Logs, "%s: a restart without a cause: %s", filepath.Base(w.Log), x.Text)
			}
		case "the job failed", "another process has taken the job over":
			causes++
		}
	}
	if running(w) || w.Killed() {
		return
	}
	if code := w.Code(); code != 0 && causes != 1 {
		l.Add(Logs, "%s: exit code %d and %d lines that say why", filepath.Base(w.Log), code, causes)
	}
}
