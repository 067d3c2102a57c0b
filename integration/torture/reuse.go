package torture

import "context"

// crowded has rows in every epoch of every subtask, and the second checkpoint of
// every start aborted.
func crowded(e *Episode) {
	e.Rate, e.Even, e.NoDeclines, e.Faults = 600, true, true, "checkpoint.append.declined:2:error"
}

// Reuse makes a restart find, n times, that the id of a committed transaction was
// used again: with two slots and no cooling, checkpoint 1 is committed in one slot,
// 2 is aborted and stays prepared in the other, and the rows of 3 go to the first
// one before it dies. Of checkpoint 1, which is restored, only the marker tells. The
// restart dies when it has heard so.
func (l *Life) Reuse(ctx context.Context, n int) error {
	for range n {
		err := l.dieBy(ctx, aim{point: "kafka.flush.after", nth: 5}, aim{point: "kafka.recover.resolved", nth: 1})
		if err != nil || !l.OK() {
			return err
		}
	}
	return nil
}
