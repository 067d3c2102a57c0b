package kafka

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"etl/internal/fault"
	"etl/internal/kafkatest"
	"etl/stream"
)

// A broker is killed while a writer is at work: with rows in flight, with everything
// acknowledged, before and after the marker. The writer goes on, or its attempt ends and
// the next one does; every row is seen once. ETL_HEAL_TRIES asks for more kills.
func TestBrokerKilledUnderTheWriter(t *testing.T) {
	kills := 2
	if n, err := strconv.Atoi(os.Getenv("ETL_HEAL_TRIES")); err == nil {
		kills = n
	}
	b := kafkatest.Start(t, kafkatest.Config{})
	j := realJob(t, b)
	j.start()
	j.write(20)
	j.checkpoint()
	points := []string{"kafka.flush.before", "kafka.marker.added", "kafka.flush.after", "kafka.begin", "kafka.marker.after", "kafka.prepared"}
	restarts := 0
	for kill := range kills {
		if err := j.underFire(b, points[kill%len(points)]); err != nil {
			if c := stream.ClassOf(err); c != stream.Restart && c != stream.Retry {
				t.Fatalf("%v (%v)", err, c)
			}
			t.Logf("attempt ended: %v", err)
			restarts++
			j.crash()
			j.start()
		}
		j.write(10)
		j.checkpoint()
		j.wantExactly(j.at)
	}
	t.Logf("%d kills, %d new attempts", kills, restarts)
}

// The histories of TestCrashesAnywhere on real brokers of both transaction versions, with
// fresh producers and with kept ones.
func TestCrashesAnywhereOnKafka(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		if j.fake != nil {
			return // in virtual time: TestCrashesAnywhere
		}
		if j.tasks = 3; strings.HasSuffix(t.Name(), "kafka") {
			j.cfg.Policy.Interval = 200 * time.Millisecond
		}
		r := stepper(time.Now().UnixNano())
		t.Logf("seed %d", uint64(r))
		j.start()
		for range 12 {
			if r.checkpoint(j) {
				j.crash()
				j.start()
			}
		}
		j.checkpoint()
		j.wantExactly(j.at)
	})
}

// underFire takes a checkpoint and has the broker killed at a point of it.
func (j *job) underFire(b *kafkatest.Broker, point string) error {
	j.t.Helper()
	shot, done := false, make(chan error, 2)
	fault.Watch(func(name string) {
		if name == point && !shot {
			shot = true
			ctx := context.WithoutCancel(j.t.Context())
			done <- b.Server.Kill(ctx)
			go func() { done <- b.Server.Restart(ctx) }()
		}
	})
	err := j.step()
	fault.Watch(nil)
	if !shot {
		j.t.Fatalf("%s was not passed", point)
	}
	for range 2 {
		j.must(<-done)
	}
	return err
}

func (j *job) step() error {
	if err := j.tryWrite(500); err != nil {
		return err
	}
	id, ps := j.prepare()
	if err := j.tryFinish(ps); err != nil {
		return err
	}
	j.publish(id)
	j.resolve(id, true)
	return nil
}
