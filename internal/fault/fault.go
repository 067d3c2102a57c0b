// Package fault names the points of the protocol at which a test may make a
// process die, stop, or fail. A point costs one atomic load when nothing is
// planned.
//
// A plan comes from the environment variable ETL_FAULT, for programs that are
// killed from outside, or from [Set], for tests in the process. Its form is
//
//	point:nth:action[,point:nth:action...]
//
// where nth counts the passes from 1, "every3" means each third, and action is kill (SIGKILL to the own
// process), stop (SIGSTOP), panic, error (the point's Err returns it) or
// delay=DURATION. A point may end in '*' to match every point with the prefix.
//
// ETL_FAULT_PASSED names a file to which the points that are passed are appended,
// each once.
package fault

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInjected is what Err returns where a plan says error.
var ErrInjected = errors.New("injected fault")

type step struct {
	point, action string
	nth           int64
	every         bool
	delay         time.Duration
	passes        atomic.Int64
}

func (s *step) matches(name string) bool {
	if p, ok := strings.CutSuffix(s.point, "*"); ok {
		return strings.HasPrefix(name, p)
	}
	return s.point == name
}

func (s *step) due(pass int64) bool {
	return pass == s.nth || s.every && pass%s.nth == 0
}

type plan struct {
	steps []*step
	seen  func(name string)
}

var (
	current atomic.Pointer[plan]
	setting sync.Mutex
)

func init() {
	if v := os.Getenv("ETL_FAULT"); v != "" {
		if err := Set(v); err != nil {
			panic("ETL_FAULT: " + err.Error())
		}
	}
	if file := os.Getenv("ETL_FAULT_PASSED"); file != "" {
		passed, err := recorder(file)
		if err != nil {
			panic("ETL_FAULT_PASSED: " + err.Error())
		}
		Watch(passed)
	}
}

// Set replaces the plan; an empty one removes it.
func Set(spec string) error {
	p, err := parse(spec)
	if err != nil {
		return err
	}
	setting.Lock()
	defer setting.Unlock()
	if old := current.Load(); old != nil && old.seen != nil {
		p.seen = old.seen
	}
	store(p)
	return nil
}

// Watch calls f with the name of every point that is passed, until f is nil.
func Watch(f func(name string)) {
	setting.Lock()
	defer setting.Unlock()
	p := &plan{seen: f}
	if old := current.Load(); old != nil {
		p.steps = old.steps
	}
	store(p)
}

func store(p *plan) {
	if len(p.steps) == 0 && p.seen == nil {
		p = nil
	}
	current.Store(p)
}

func parse(spec string) (*plan, error) {
	p := &plan{}
	for _, part := range strings.Split(spec, ",") {
		if part == "" {
			continue
		}
		f := strings.SplitN(part, ":", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%q is not of the form point:nth:action", part)
		}
		count, every := strings.CutPrefix(f[1], "every")
		nth, err := strconv.ParseInt(count, 10, 64)
		if err != nil || nth < 1 {
			return nil, fmt.Errorf("%q: nth must be a number from 1, or every and such a number", part)
		}
		s := &step{point: f[0], nth: nth, every: every, action: f[2]}
		if d, ok := strings.CutPrefix(s.action, "delay="); ok {
			if s.delay, err = time.ParseDuration(d); err != nil {
				return nil, fmt.Errorf("%q: %w", part, err)
			}
			s.action = "delay"
		}
		switch s.action {
		case "kill", "stop", "panic", "error", "delay":
		default:
			return nil, fmt.Errorf("%q: unknown action %q", part, s.action)
		}
		p.steps = append(p.steps, s)
	}
	return p, nil
}

// Point marks a place at which a process may die. It ignores planned errors.
func Point(name string) {
	if p := current.Load(); p != nil {
		_ = p.pass(name)
	}
}

// Err marks a place at which an operation may fail: it returns ErrInjected when
// the plan says so.
func Err(name string) error {
	if p := current.Load(); p != nil {
		return p.pass(name)
	}
	return nil
}

func (p *plan) pass(name string) error {
	if p.seen != nil {
		p.seen(name)
	}
	for _, s := range p.steps {
		if s.matches(name) && s.due(s.passes.Add(1)) {
			if err := s.act(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *step) act(name string) error {
	switch s.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is asynchronous: nothing after the point may run
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		awaitContinue()
	case "panic":
		panic("injected panic at " + name)
	case "error":
		return fmt.Errorf("%w at %s", ErrInjected, name)
	case "delay":
		time.Sleep(s.delay)
	}
	return nil
}

// awaitContinue gives the asynchronous stop signal time to arrive, so that the
// code behind the point runs only after the continuation.
func awaitContinue() { time.Sleep(50 * time.Millisecond) }
