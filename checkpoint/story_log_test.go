package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/state"
	"etl/stream"
)

// TestLogStories plays the stories of the contested log: several processes, one
// storage, and what the network does to their calls.
func TestLogStories(t *testing.T) {
	datadriven.Walk(t, "testdata/log", func(t *testing.T, path string) {
		defer goleak.VerifyNone(t)
		s := &story{st: memstore.New("job"), procs: map[string]*process{}, lives: map[stream.Lineage]int{}}
		s.st.Inject(s.verdict)
		datadriven.RunTest(t, path, s.run)
	})
}

// story is the world of one file.
type story struct {
	st    *memstore.Store
	procs map[string]*process
	lives map[stream.Lineage]int // numbers for lineages

	answer string        // what becomes of the next put
	late   chan struct{} // where a late put waits
	paused *pause
	clock  tickless
}

// process is somebody who works on the job.
type process struct {
	name    string
	a       *checkpoint.Attempt
	r       *checkpoint.Retention
	pending chan string   // the result of what it stands still in
	resume  chan struct{} // lets it go on
}

// pause is a process that stands still before a call.
type pause struct {
	op      string
	reached chan string
	resume  chan struct{}
}

func (s *story) verdict(c memstore.Call) memstore.Verdict {
	if p := s.paused; p != nil && c.Op == p.op {
		s.paused = nil
		p.reached <- c.Name
		return memstore.Verdict{Wait: p.resume}
	}
	if c.Op != "put" || s.answer == "" {
		return memstore.Verdict{}
	}
	answer := s.answer
	s.answer = ""
	err := errors.New("connection reset")
	switch answer {
	case "lost":
		return memstore.Verdict{Err: err, Lost: true}
	case "applied":
		return memstore.Verdict{Err: err}
	case "late":
		s.late = make(chan struct{})
		return memstore.Verdict{Err: err, Late: s.late}
	case "not-durable":
		return memstore.Verdict{Err: fmt.Errorf("sync: %w", checkpoint.ErrNotDurable)}
	}
	panic("unknown answer " + answer)
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "begin": // a command that stands still before a call: begin put A open
		return s.begin(d)
	case "resume":
		return s.resume(d)
	case "answer":
		s.answer = d.CmdArgs[0].Key
		return ""
	case "arrive":
		close(s.late)
		s.st.Settle()
		return ""
	case "damage":
		return s.damage(d)
	case "log":
		return s.printLog()
	case "see":
		return s.see()
	case "objects":
		return s.objects()
	}
	return s.do(d.Cmd, d)
}

func (s *story) begin(d *datadriven.TestData) string {
	op, cmd := d.CmdArgs[0].Key, d.CmdArgs[1].Key
	rest := *d
	rest.CmdArgs = d.CmdArgs[2:]
	p := s.proc(rest.CmdArgs[0].Key)
	p.pending = make(chan string, 1)
	return s.until(p, op, func() {
		go func() { p.pending <- s.do(cmd, &rest) }()
	})
}

// until lets a process go on until its next call of a kind.
func (s *story) until(p *process, op string, goOn func()) string {
	p.resume = make(chan struct{})
	reached := make(chan string)
	s.paused = &pause{op: op, reached: reached, resume: p.resume}
	goOn()
	return fmt.Sprintf("%s is about to %s %s\n", p.name, op, s.short(<-reached))
}

// resume lets a process go on: resume A, or resume A until=get.
func (s *story) resume(d *datadriven.TestData) string {
	p := s.proc(d.CmdArgs[0].Key)
	goOn := p.resume
	if len(d.CmdArgs) > 1 {
		return s.until(p, d.CmdArgs[1].Vals[0], func() { close(goOn) })
	}
	close(goOn)
	return <-p.pending
}

func (s *story) proc(name string) *process {
	if s.procs[name] == nil {
		s.procs[name] = &process{name: name}
	}
	return s.procs[name]
}

// do is what a process does.
func (s *story) do(cmd string, d *datadriven.TestData) string {
	p, ctx := s.proc(d.CmdArgs[0].Key), context.Background()
	var err error
	switch cmd {
	case "open":
		if p.a, err = checkpoint.OpenAttempt(ctx, s.st, s.options(p.name)); err == nil {
			p.r = checkpoint.NewRetention(p.a, s.st, 2)
			return fmt.Sprintf("%s is attempt %d of life %d\n", p.name, p.a.Number(), s.life(p.a.Lineage()))
		}
	case "publish":
		m := s.metadata(p, d)
		var permit checkpoint.Permit
		if permit, err = p.a.Publish(ctx, m); err == nil {
			return fmt.Sprintf("%s holds the permit for %s\n", p.name, permit.ID())
		}
	case "confirm":
		err = p.a.Confirm(ctx, map[stream.TaskID]stream.CheckpointID{{UID: "out"}: id(d.CmdArgs[1].Key)})
	case "abandon":
		err = p.a.Abandon(ctx, id(d.CmdArgs[1].Key), "its transaction is gone", false)
	case "close":
		err = p.a.Close(ctx)
	case "upload":
		for _, arg := range d.CmdArgs[1:] {
			name := checkpoint.ObjectName(p.a.Lineage(), p.a.Number(), arg.Key)
			_, _, err = s.st.Create(ctx, name, strings.NewReader(arg.Key))
		}
	case "retain":
		err = p.r.Run(ctx)
	case "sweep":
		err = p.r.Sweep(ctx)
	case "purge":
		err = p.r.Purge(ctx)
	default:
		panic("unknown command " + cmd)
	}
	if err != nil {
		return fmt.Sprintf("%s: %s: %s\n", p.name, stream.ClassOf(err), s.short(err.Error()))
	}
	return ""
}

func id(s string) stream.CheckpointID {
	id, err := stream.ParseCheckpointID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func (s *story) metadata(p *process, d *datadriven.TestData) *checkpoint.Metadata {
	m := &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "job", Lineage: p.a.Lineage(), ID: id(d.CmdArgs[1].Key), Kind: "periodic"}
	for _, arg := range d.CmdArgs[2:] {
		switch arg.Key {
		case "confirmed":
			m.ConfirmedThrough = map[string]stream.CheckpointID{"out/0": id(arg.Vals[0])}
		default: // "1-a": object a of attempt 1
			name := fmt.Sprintf("objects/%s-%s", p.a.Lineage().Short(), arg.Key)
			m.Tasks = append(m.Tasks, checkpoint.TaskState{Handles: []state.Handle{{Role: state.Operator, Scope: state.Shared, Object: name, Size: 1}}})
		}
	}
	return m
}

func (s *story) options(host string) checkpoint.AttemptOptions {
	return checkpoint.AttemptOptions{
		World:  stream.World{Clock: &s.clock, Entropy: named{host}, Log: slog.New(slog.DiscardHandler)},
		Holder: checkpoint.Holder{Host: host, PID: 1},
	}
}

func (s *story) damage(d *datadriven.TestData) string {
	name := d.CmdArgs[0].Key
	b, err := s.st.Get(context.Background(), name)
	if err == nil {
		err = s.st.Delete(context.Background(), name)
	}
	if err == nil {
		b[len(b)/2] ^= 1
		err = s.st.PutIfAbsent(context.Background(), name, b)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (s *story) life(l stream.Lineage) int {
	if s.lives[l] == 0 && !l.IsZero() {
		s.lives[l] = len(s.lives) + 1
	}
	return s.lives[l]
}

// short makes names readable: "objects/<lineage>-1-a" becomes "1-a".
func (s *story) short(text string) string {
	for l, n := range s.lives {
		text = strings.ReplaceAll(text, "objects/"+l.Short()+"-", "")
		text = strings.ReplaceAll(text, l.Short(), fmt.Sprint("life", n))
	}
	return text
}

func (s *story) printLog() string {
	h, err := checkpoint.ReadHistory(context.Background(), s.st)
	if err != nil {
		return fmt.Sprintf("%s: %v\n", stream.ClassOf(err), err)
	}
	var b strings.Builder
	for _, e := range h.Entries {
		fmt.Fprintf(&b, "%d %s", e.Seq, e.Kind)
		switch e.Kind {
		case checkpoint.EntryAttempt:
			fmt.Fprintf(&b, " %d of %s", e.Attempt, e.Holder.Host)
		case checkpoint.EntryCheckpoint:
			fmt.Fprintf(&b, " %s", e.Metadata.ID)
			e.Metadata.Objects(func(o state.Handle) { fmt.Fprintf(&b, " %s", s.short(o.Object)) })
		case checkpoint.EntryConfirmed:
			fmt.Fprintf(&b, " %v", e.Confirmed)
		case checkpoint.EntryAbandoned:
			fmt.Fprintf(&b, " %s", e.Abandoned)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// see prints what a start would make of the log.
func (s *story) see() string {
	h, err := checkpoint.ReadHistory(context.Background(), s.st)
	if err != nil {
		return fmt.Sprintf("%s: %v\n", stream.ClassOf(err), err)
	}
	var published []string
	for _, m := range h.Published() {
		published = append(published, m.ID.String())
	}
	return fmt.Sprintf("life %d, owners %v, published %v, confirmed %v\n", s.life(h.Lineage()), h.Owners(1<<31), published, h.Confirmed())
}

func (s *story) objects() string {
	infos, err := s.st.List(context.Background(), "objects/")
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, in := range infos {
		names = append(names, s.short(in.Name))
	}
	if len(names) == 0 {
		return "none\n"
	}
	slices.Sort(names)
	return strings.Join(names, " ") + "\n"
}

// named is an entropy that tells processes apart and repeats itself.
type named struct{ host string }

func (n named) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = n.host[i%len(n.host)] + byte(i)
	}
	return len(p), nil
}

var _ io.Reader = named{}

// tickless is a clock that jumps when somebody sleeps.
type tickless struct{ now time.Duration }

func (c *tickless) Now() time.Time {
	return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Add(c.now)
}

func (c *tickless) Sleep(ctx context.Context, d time.Duration) error {
	c.now += d
	return context.Cause(ctx)
}

func (c *tickless) Ticker(time.Duration) stream.Ticker { panic("nothing here ticks") }
