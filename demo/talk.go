package demo

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/verify"
)

// lineWriter writes whole lines from several goroutines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "  "+format+"\n", args...)
}

// introduce says what is about to be seen.
func (r *run) introduce() {
	r.out.line("cluster    in-process Kafka (kfake), %d partitions, on %s", partitions, r.address)
	r.out.line("pipeline   %s: %s -> words -> counts -> %s, %d subtasks each", jobName, linesTopic, countsTopic, subtasks)
	if r.o.AtLeastOnce {
		r.out.line("guarantee  at-least-once: rows are visible at once, and written again after a crash")
	} else {
		r.out.line("guarantee  exactly-once: rows become visible when their checkpoint is committed, every 1s")
	}
	r.out.line("plan       %s lines, worker killed %d times (seed %d)", number(r.o.Records), len(r.points), r.o.Seed)
}

// say writes a line with the time since the start.
func (r *run) say(format string, args ...any) {
	t := r.o.Clock.Now().Sub(r.began)
	r.out.line("%02d:%02d  %s", int(t.Minutes()), int(t.Seconds())%60, fmt.Sprintf(format, args...))
}

// restored is told when the worker runs.
func (r *run) restored(checkpoint string, committed int) {
	if r.attempt == 1 {
		r.say("worker runs")
		return
	}
	r.result.Restored = append(r.result.Restored, checkpoint)
	if committed > 0 {
		r.say("restored checkpoint %s; transactions of the killed worker committed: %d", checkpoint, committed)
		return
	}
	r.say("restored checkpoint %s", checkpoint)
}

const progressEvery = 2 * time.Second

// progress says every now and then how far things are.
func (r *run) progress(ctx context.Context) {
	cl, err := r.conn.NewClient()
	if err != nil {
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for r.o.Clock.Sleep(ctx, progressEvery) == nil {
		r.say("in %s lines   committed %s counts   waiting for their commit %s", number(r.gen.lines.Load()), number(r.watch.Rows()), number(waiting(ctx, adm)))
	}
}

// waiting returns how much lies behind the last stable offsets.
func waiting(ctx context.Context, adm *kadm.Client) (n int64) {
	stable, err := adm.ListCommittedOffsets(ctx, countsTopic)
	if err != nil {
		return 0
	}
	ends, err := adm.ListEndOffsets(ctx, countsTopic)
	if err != nil {
		return 0
	}
	ends.Each(func(e kadm.ListedOffset) {
		if s, ok := stable.Lookup(e.Topic, e.Partition); ok && e.Offset > s.Offset {
			n += e.Offset - s.Offset
		}
	})
	return n
}

// recount asks package verify, and the watcher, and says what they say.
func (r *run) recount(ctx context.Context) error {
	r.say("worker ended by itself after the last line; recounting ...")
	v, err := verify.Verify(ctx, r.spec(), verify.Options{Finished: true, Clock: r.o.Clock})
	if err != nil {
		return err
	}
	seen, err := r.watch.Compare(ctx, r.conn)
	if err != nil {
		return err
	}
	r.result.Recount, r.result.Rows, r.result.Missing, r.result.Duplicated = v, v.RecordsOut, v.Missing+v.Behind, v.Duplicated
	r.result.OK = v.OK && len(seen) == 0 && v.RecordsIn == r.o.Records
	if r.o.AtLeastOnce {
		r.result.OK = r.result.OK && v.Duplicated > 0
	}
	r.result.Seconds = r.o.Clock.Now().Sub(r.began).Seconds()
	r.conclude(v, seen)
	return nil
}

// conclude says the outcome.
func (r *run) conclude(v *verify.Result, seen []verify.Finding) {
	word := "OK"
	if !r.result.OK {
		word = "NOT OK"
	}
	r.say("%s lines have %s words; %s counts are visible", number(v.RecordsIn), number(r.gen.words.Load()), number(v.RecordsOut))
	r.say("killed %d times   missing %s   duplicated %s   %s", len(r.result.Kills), number(r.result.Missing), number(r.result.Duplicated), word)
	if r.o.AtLeastOnce && v.Duplicated > 0 {
		r.out.line("the duplicates are what at-least-once means: after each kill, rows since the last checkpoint are written again")
	}
	if !r.result.OK {
		for _, f := range append(v.Examples, seen...) {
			r.out.line("  %s", f)
		}
	}
	next := "etl demo --at-least-once (see the duplicates)   |   etl demo --kills 20 --seed 7   |   etl run FILE"
	if r.o.AtLeastOnce {
		next = "etl demo (the same, exactly once)"
	}
	r.out.line("next: %s", next)
}

// number writes n with commas.
func number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
