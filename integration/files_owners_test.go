package integration

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"etl/internal/kafkatest"
)

// A process that is stopped at a point of the file sink's protocol is taken over, and goes on:
// while its successor recovers, and when that is at work. What it does then is in vain, and
// a recount of the ended job takes what it leaves for what it is.
func TestFilesOwnerStopped(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"file.begun:5", "file.prepare.synced:7", "file.prepared:7", "file.commit.before:7", "file.commit.intent:7", "file.commit.moved:9"} {
		for _, when := range []string{"recovers", "runs"} {
			t.Run(strings.Split(point, ":")[0]+" "+when, func(t *testing.T) {
				t.Parallel()
				b := kafkatest.Shared(t)
				in, out := b.Topic(t, 3), filepath.Join(t.TempDir(), "out")
				j := newJob(t, b, archiving, "IN="+in, "OUT="+out)
				stop := feed(t, b, in, 7, 3)
				first := j.faulty(point + ":stop")
				first.stopped()
				var second *run
				if when == "runs" {
					second = j.start("--take-over").running()
					second.checkpoints(1)
					first.signal(syscall.SIGCONT)
					first.ends(6)
				} else {
					second = j.faulty("recover.V4:1:stop", "--take-over")
					second.stopped()
					first.signal(syscall.SIGCONT)
					first.ends(6)
					second.signal(syscall.SIGCONT)
				}
				second.checkpoints(3)
				if second.count("restarting from the last checkpoint") > 0 {
					t.Error("the successor was disturbed")
				}
				n := stop()
				eventually(t, "the job catches up", func() bool { return j.recount().Behind == 0 })
				j.must("stop")
				second.ends(0)
				j.finished()
				everyNumberOnce(t, linesIn(t, out, ".jsonl.zst"), n, 3)
				everyNumberOnce(t, tablesIn(t, out), n, 3)
			})
		}
	}
}
