package pipeline

import (
	"context"
	"math"
	"slices"

	"etl/stream"
	"etl/transform"
)

// watermarks combines those of the inputs: the least over all inputs that are not
// idle; an input that has sent none holds the task's back.
type watermarks struct {
	marks []int64
	idle  []bool
	out   int64
	set   bool
}

func newWatermarks(inputs int) *watermarks {
	w := &watermarks{marks: make([]int64, inputs), idle: make([]bool, inputs), out: math.MinInt64}
	for i := range w.marks {
		w.marks[i] = math.MinInt64
	}
	return w
}

// value returns the task's watermark, nil before the first.
func (w *watermarks) value() *int64 {
	if !w.set {
		return nil
	}
	v := w.out
	return &v
}

// on takes an input's watermark and reports whether the task's has risen.
func (w *watermarks) on(input int, mark int64) bool {
	w.active(input)
	w.marks[input] = max(w.marks[input], mark)
	return w.combine()
}

// active lets an input that was idle count again: it has sent a batch. The task's
// watermark does not fall back to the input's.
func (w *watermarks) active(input int) { w.idle[input] = false }

// quiet takes an input out and reports what changed.
func (w *watermarks) quiet(input int) (risen, allIdle bool) {
	w.idle[input] = true
	risen, allIdle = w.combine(), true
	for _, i := range w.idle {
		allIdle = allIdle && i
	}
	return risen, allIdle
}

func (w *watermarks) combine() bool {
	low := int64(math.MaxInt64)
	for i, m := range w.marks {
		if !w.idle[i] {
			low = min(low, m)
		}
	}
	if low == math.MaxInt64 || low <= w.out {
		return false
	}
	w.out, w.set = low, true
	return true
}

func (t *task) watermark(ctx context.Context, input int, wm stream.Watermark) error {
	if !t.marks.on(input, wm.Time) {
		return nil
	}
	return t.advance(ctx)
}

func (t *task) idle(ctx context.Context, input int) error {
	risen, all := t.marks.quiet(input)
	if risen {
		if err := t.advance(ctx); err != nil {
			return err
		}
	}
	if all {
		return t.broadcast(ctx, stream.Idle{})
	}
	return nil
}

// advance gives the risen watermark to the operators and sends it on.
func (t *task) advance(ctx context.Context) error {
	wm := stream.Watermark{Time: t.marks.out}
	for _, l := range t.links {
		l.c.Watermark.Store(wm.Time)
		if o, ok := l.op.(transform.OnWatermark); ok {
			err := l.settle(ctx, func() (bool, error) { return o.OnWatermark(ctx, wm, l.out) })
			if err != nil {
				return err
			}
		}
	}
	return t.broadcast(ctx, wm)
}

// endOfInput ends an input; the last one ends the chain, and with it the inputs
// of the tasks behind. Barriers still come and are answered until the final one.
// An input that has ended holds no watermark back: it is idle for good.
func (t *task) endOfInput(ctx context.Context, input int) error {
	if t.reader != nil {
		t.finished = true
		defer t.runner.SourceEnded(t.id)
	} else {
		t.ended[input] = true
		if slices.Contains(t.ended, false) {
			return t.idle(ctx, input)
		}
	}
	for _, l := range t.links {
		if o, ok := l.op.(transform.EndInput); ok {
			for port := range max(len(l.node.Inputs), 1) {
				err := l.settle(ctx, func() (bool, error) { return o.EndInput(ctx, stream.Port(port), l.out) })
				if err != nil {
					return err
				}
			}
		}
	}
	return t.broadcast(ctx, stream.EndOfInput{})
}
