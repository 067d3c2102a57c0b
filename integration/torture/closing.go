package torture

import (
	"context"
	"strings"
)

// CloseJob cancels a job that deletes its checkpoints, and lets it die at a point on
// the way. Before the log is closed nothing has happened, and the job goes on; after
// it the life of the job is over: a start under the same name finds the markers of
// another life and is refused.
func (l *Life) CloseJob(ctx context.Context, point string) error {
	w, err := l.Start(point + ":1:kill")
	if err != nil {
		return err
	}
	defer w.Kill()
	if !l.checkpoints(w, 3) {
		l.Add(Alive, "no checkpoints: %s", w.Ended())
		return nil
	}
	if _, _, err := l.job.Tool(ctx, l.Binary, "cancel", l.job.File); err != nil && ctx.Err() != nil {
		return err // the answer may be lost: it died
	}
	if !w.Wait(ownerPatience) {
		l.Add(Alive, "a cancelled job does not end: %s", w.Ended())
		return nil
	}
	if !w.Killed() {
		// The last checkpoint was not resolved, so that nothing could be deleted.
		l.Ended(w)
		l.Tally.Add("cancelled with something in doubt", 1)
		return l.Finish(ctx)
	}
	l.Tally.Add(killAt+point, 1)
	l.dead(w)
	if strings.HasSuffix(point, ".before") {
		return l.Finish(ctx)
	}
	l.refused(Refusal{Name: "a closed log", Code: "kafka.foreign_lineage"}, nil)
	return ctx.Err()
}
