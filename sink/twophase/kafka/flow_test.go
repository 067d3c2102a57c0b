package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/sink/kafkatxn"
)

// one is a job with one subtask and a gate in front of the broker's produce handling.
func one(t *testing.T, cfg func(*Config), opts ...kfake.Opt) *job {
	j := fakeJob(t, opts...)
	j.tasks = 1
	if cfg != nil {
		cfg(&j.cfg)
	}
	return j
}

// hold makes the broker keep produce requests until the gate opens.
func (j *job) hold() (open func()) {
	gate := make(chan struct{})
	j.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		j.fake.KeepControl()
		j.fake.SleepControl(func() { <-gate })
		return nil, nil, false
	})
	opened := false
	open = func() {
		if !opened {
			opened = true
			close(gate)
		}
	}
	j.t.Cleanup(open)
	return open
}

// The barrier waits for nothing, and rows of the next epoch stay back until the last is
// acknowledged.
func TestHoldQueue(t *testing.T) {
	j := one(t, nil)
	j.start()
	id0 := j.publishes(5)
	j.resolve(id0, true)

	open := j.hold()
	j.write(10)
	id1, ps1 := j.prepare() // 10 rows are with the broker, unanswered
	j.write(10)
	w := j.writers[0]
	if n := len(w.cur.held); n != 10 {
		t.Fatalf("%d rows are held", n)
	}
	id2, ps2 := j.prepare() // sealed with rows held
	j.write(10)
	if n := len(w.cur.held); n != 10 || w.prev != ps2[0].(*pending).e {
		t.Fatalf("%d rows are held for the epoch before", n)
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(j.tryFinish(ps1), j.tryFinish(ps2)) }()
	select {
	case err := <-done:
		t.Fatalf("finished before the broker answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	open()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	j.publish(id1)
	j.resolve(id1, true)
	j.publish(id2)
	j.resolve(id2, true)
	j.write(5) // nothing is held any more: what was goes out first
	if n := len(w.cur.held); n != 0 || w.prev != nil {
		t.Errorf("%d rows are still held", n)
	}
	j.checkpoint()
	j.wantExactly(40)
}

// A full hold queue is back-pressure, and goes away with the last epoch's answers.
func TestHoldQueueIsBounded(t *testing.T) {
	j := one(t, func(c *Config) { c.HoldBytes = 10 * kafkatxn.RecordOverhead })
	j.start()
	open := j.hold()
	j.write(10)
	_, ps := j.prepare()
	j.write(20) // over the bound at once: a batch is not split
	wrote := make(chan error, 1)
	go func() { wrote <- j.tryWrite(1) }()
	select {
	case err := <-wrote:
		t.Fatalf("written into a full queue: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	open()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	j.finish(ps)
	j.checkpoint()
	j.wantExactly(31)
}

// More than may be in flight is back-pressure, too, and loses nothing.
func TestInFlightIsBounded(t *testing.T) {
	j := one(t, func(c *Config) { c.InFlightBytes = 4 * stepBytes })
	j.start()
	open := j.hold()
	wrote := make(chan error, 1)
	go func() { wrote <- j.tryWrite(3000) }()
	select {
	case err := <-wrote:
		t.Fatalf("everything is in flight: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	open()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	j.checkpoint()
	j.wantExactly(3000)
}
