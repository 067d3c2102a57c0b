package kafka

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"etl/stream"
)

// virtual runs a job on an in-memory network in virtual time.
func virtual(t *testing.T, f func(j *job), opts ...kfake.Opt) {
	synctest.Test(t, func(t *testing.T) {
		net := new(kfake.VirtualNetwork)
		j := fakeJob(t, append([]kfake.Opt{kfake.ListenFn(net.Listen)}, opts...)...)
		j.world.Dial = net.DialContext
		j.cfg.Conn.Dial = net.DialContext
		f(j)
		j.crash()
		j.fake.Close()
		synctest.Wait()
	})
}

func TestInVirtualTime(t *testing.T) {
	for name, opts := range map[string][]kfake.Opt{"tv2": nil, "tv1": {kfake.MaxVersions(kversion.V3_9_0())}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(j *job) {
				begin := time.Now()
				j.start()
				for round := range 20 {
					j.write(20)
					j.checkpoint()
					if round%7 == 6 {
						j.write(5)
						j.crash()
						j.start()
					}
					time.Sleep(10 * time.Second)
				}
				j.wantExactly(400)
				if d := time.Since(begin); d < 200*time.Second {
					t.Errorf("%v passed", d)
				}
			}, opts...)
		})
	}
}

// A transaction is given up by the broker while the job is down: what was published is
// lost, and said to be so; it is never called committed.
func TestDownForLongerThanTheTimeout(t *testing.T) {
	virtual(t, func(j *job) {
		j.start()
		j.publishes(20)
		j.crash()
		time.Sleep(2 * time.Minute)
		if err := j.tryStart(); err == nil {
			t.Error("a lost checkpoint was restored")
		}
	})
}

// Confirmed work is never asked about again, however long the job was down.
func TestDownForAMonth(t *testing.T) {
	virtual(t, func(j *job) {
		j.start()
		id := j.publishes(20)
		lanes := map[stream.TaskID]stream.CheckpointID{}
		for _, c := range j.open {
			lanes[c.Lane()] = id
		}
		j.resolve(id, true)
		j.must(j.attempt.Confirm(j.t.Context(), lanes))
		j.crash()
		time.Sleep(30 * 24 * time.Hour)
		j.start()
		j.write(20)
		j.checkpoint()
		j.wantExactly(40)
	})
}

// Unconfirmed work whose marker may have expired is unknown, which is not lost.
func TestUnconfirmedForAMonth(t *testing.T) {
	virtual(t, func(j *job) {
		j.start()
		id := j.publishes(20)
		for _, c := range j.open {
			j.must(j.commit(j.t.Context(), j.permit[id], c))
		}
		j.crash()
		time.Sleep(30 * 24 * time.Hour)
		// kfake forgets the ids, and keeps offsets for ever; a broker keeps neither.
		j.forgetMarkers()
		err := j.tryStart()
		if err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("%v", err)
		}
	})
}

// The zombie's transaction is swept up in the background.
func TestSweeperRuns(t *testing.T) {
	virtual(t, func(j *job) {
		j.start()
		j.write(10)
		j.checkpoint()
		zombies := j.writers
		j.writers = nil
		j.committer.Close()
		j.start()
		before := j.attempt.Number()
		b := stream.NewBatch(nil)
		b.Append(stream.Record{Value: []byte("zombie"), Pos: -1})
		if err := zombies[0].Write(j.t.Context(), b, &j.rejects); err != nil {
			t.Logf("the zombie noticed: %v", err)
		}
		time.Sleep(45 * time.Second)
		ds, err := j.committer.Inspect(j.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if d.Attempt < before {
				t.Errorf("not swept: %+v", d)
			}
		}
		for _, w := range zombies {
			w.Close()
		}
		j.write(10)
		j.checkpoint()
		j.wantExactly(20)
	})
}

// seeds is the number of histories; ETL_SEEDS asks for more.
func seeds() int {
	if n, err := strconv.Atoi(os.Getenv("ETL_SEEDS")); err == nil {
		return n
	}
	return 40
}

// Many seeds of crashes at any step, in virtual time.
func TestCrashesAnywhere(t *testing.T) {
	for seed := range seeds() {
		virtual(t, func(j *job) {
			r := stepper(uint64(seed))
			j.start()
			for range 12 {
				crashed := r.checkpoint(j)
				if crashed {
					j.crash()
					j.start()
				}
				time.Sleep(time.Duration(r.n(3)) * time.Second)
			}
			j.checkpoint()
			j.wantExactly(j.at)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// stepper is a small generator of decisions, the same for the same seed.
type stepper uint64

func (s *stepper) n(limit int) int {
	*s = *s*6364136223846793005 + 1442695040888963407
	return int(uint64(*s)>>33) % limit
}

// checkpoint goes through the steps of a checkpoint and stops anywhere.
func (s *stepper) checkpoint(j *job) (crashed bool) {
	die := func() bool { return s.n(9) == 0 }
	j.write(s.n(20))
	if die() {
		return true
	}
	id, ps := j.prepare()
	j.write(s.n(10))
	if die() {
		return true
	}
	j.finish(ps)
	if die() {
		return true
	}
	if s.n(3) == 0 {
		return false // aborted: the next one lists it
	}
	j.publish(id)
	if die() {
		return true
	}
	j.resolve(id, s.n(2) == 0)
	return die()
}
