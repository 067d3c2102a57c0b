package pipeline

import (
	"sync/atomic"

	"etl/stream"
)

// whereabouts say what a task is doing, for whoever asks why a checkpoint takes so
// long. The task and its persister write them, once per batch; anybody may read.
type whereabouts struct {
	// at is the component that has a batch or a barrier in its hands, nil for none.
	at atomic.Pointer[link]
	// waits is the task whose inbox is full.
	waits atomic.Pointer[stream.TaskID]
	// prepares is the sink subtask whose Finish is under way.
	prepares atomic.Pointer[stream.TaskID]
}

// enter notes that l is at work, and returns what leaves it again.
func (w *whereabouts) enter(l *link) (before *link) { return w.at.Swap(l) }

func (w *whereabouts) leave(before *link) { w.at.Store(before) }

// Culprit finds out who keeps tasks from acknowledging. A task that waits for a full
// inbox is not to blame: whoever does not empty it is. Barriers come to a task in
// the order of the graph, so that the first task that can be seen at work is the one
// whose work the others wait for.
func (a *attemptControl) Culprit(missing []stream.TaskID) (who stream.TaskID, doing string, ok bool) {
	byID := map[stream.TaskID]*task{}
	for _, t := range a.tasks {
		byID[t.id] = t
	}
	for _, id := range missing {
		t := byID[id]
		for range a.tasks { // the graph has no circles: this ends
			next := t.where.waits.Load()
			if next == nil || byID[*next] == nil {
				break
			}
			t = byID[*next]
		}
		if l := t.where.at.Load(); l != nil && t.where.waits.Load() == nil {
			verb := "processing records"
			if l.writer != nil {
				verb = "writing rows"
			}
			return l.env.Task(), verb, true
		}
		if lane := t.where.prepares.Load(); lane != nil {
			return *lane, "preparing its rows", true
		}
	}
	return who, "", false
}
