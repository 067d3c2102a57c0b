package kafka

import (
	"testing"

	"etl/checkpoint/memstore"
	"etl/stream"
)

// Whoever watches over a process starts it again after a refusal. The attempt that was
// refused lies in the log by then, and must not make the next one look like a job that
// goes on: it would write all rows of the other life again.
func TestAnotherLifeIsRefusedEachTime(t *testing.T) {
	j := fakeJob(t)
	j.start()
	j.write(20)
	j.checkpoint()
	j.crash()
	kept := j.store
	j.store = memstore.New(t.Name() + "-lost")
	for try := range 3 {
		if err := j.tryStart(); stream.ClassOf(err) != stream.RestoreRefused {
			t.Fatalf("start %d beside the markers of another life: %v", try+1, err)
		}
		j.crash()
	}
	j.store = kept
	j.start()
	j.write(20)
	j.checkpoint()
	j.wantExactly(40)
}
