package sinktest

import (
	"errors"
	"testing"
	"testing/synctest"

	"etl/stream"
)

// slowDisk does what it is told once it is let go.
type slowDisk struct {
	stream.FS
	asked, free chan struct{}
	removed     []string
}

func (s *slowDisk) Remove(name string) error {
	close(s.asked)
	<-s.free
	s.removed = append(s.removed, name)
	return nil
}

// A process that is gone has no calls under way: one that took effect later, when the next
// attempt is at work, would be nobody's.
func TestKillWaitsForCallsOfTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowDisk{asked: make(chan struct{}), free: make(chan struct{})}
		n := newNode(func() {})
		d, removed, gone := disk{slow, n}, make(chan error, 1), make(chan struct{})
		go func() { removed <- d.Remove("x") }()
		<-slow.asked
		go func() { n.kill(); close(gone) }()
		synctest.Wait()
		select {
		case <-gone:
			t.Error("the process is gone, and its call is under way")
		default:
		}
		close(slow.free)
		<-gone
		if len(slow.removed) != 1 {
			t.Errorf("removed are %q when the process is gone", slow.removed)
		}
		for _, err := range []error{<-removed, d.Remove("y")} {
			if !errors.Is(err, errDead) {
				t.Errorf("the process learns: %v", err)
			}
		}
	})
}
