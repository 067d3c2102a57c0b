package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"etl/checkpoint"
	"etl/source"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// env is what a component's subtask is opened with.
func (a *attempt) env(n *Node, subtask int, c *stream.Counters) stream.Env {
	p, m := a.graph.parallelism(n), a.graph.maxParallelism()
	w := a.o.World
	w.Log = w.Log.With("component", string(n.UID), "subtask", subtask)
	return stream.Env{World: w, Job: a.graph.Name, Lineage: a.log.Lineage(), Attempt: a.log.Number(), UID: n.UID, Subtask: subtask,
		Parallelism: p, MaxParallelism: m, KeyGroups: stream.RangeOf(subtask, p, m),
		Rand:     rand.New(rand.NewPCG(a.o.Seed^uint64(a.log.Number()), stream.Hash(fmt.Appendf(nil, "%s/%d", n.UID, subtask)))),
		Listener: a.o.Listener, Counters: c}
}

// build opens every task and connects them.
func (a *attempt) build(ctx context.Context) error {
	a.uploader = checkpoint.NewUploader(checkpoint.UploaderOptions{Storage: a.o.Storage, World: a.o.World, Lineage: a.log.Lineage(), Attempt: a.log.Number()})
	inboxes := map[*taskSpec][]*inbox{}
	for _, spec := range a.layout.tasks {
		for range spec.parallelism {
			inboxes[spec] = append(inboxes[spec], newInbox(spec.inputCount()))
		}
	}
	var ids, sources []stream.TaskID
	for _, spec := range a.layout.tasks {
		for i := range spec.parallelism {
			t, err := a.buildTask(ctx, spec, i, inboxes)
			if err != nil {
				return fmt.Errorf("open task %s: %w", spec.id(i), err)
			}
			ids = append(ids, t.id)
			if t.reader != nil {
				sources = append(sources, t.id)
			}
		}
	}
	r := checkpoint.NewRunner(checkpoint.RunnerOptions{Policy: a.o.Policy, Attempt: a.log, Storage: a.o.Storage, World: a.o.World,
		Listener: a.o.Listener, Tasks: ids, Sources: sources, Control: (*attemptControl)(a), Ledger: a.ledger, Template: a.template(),
		Restored: a.restored, Report: a.report, Retain: a.retention.Run})
	a.mu.Lock()
	a.runner = r
	a.mu.Unlock()
	for _, t := range a.tasks {
		t.runner = r
	}
	return nil
}

// buildTask makes one subtask of a chain.
func (a *attempt) buildTask(ctx context.Context, spec *taskSpec, subtask int, inboxes map[*taskSpec][]*inbox) (*task, error) {
	inputs := spec.inputCount()
	t := &task{id: spec.id(subtask), mode: a.o.Policy.Mode, ctl: newControl(), blocked: make([]bool, max(inputs, 1)), ended: make([]bool, inputs),
		marks: newWatermarks(max(inputs, 1))}
	a.tasks = append(a.tasks, t)
	t.persist = newPersister(t, a.uploader, a.fail)
	if spec.head.Source == nil {
		t.in = inboxes[spec][subtask]
		t.aligner = checkpoint.NewAligner(inputs, a.o.Policy.Mode == checkpoint.ExactlyOnce)
	}
	byUID := map[stream.UID]*link{}
	for _, n := range spec.nodes {
		l, err := a.buildLink(ctx, t, n, subtask)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.UID, err)
		}
		byUID[n.UID] = l
		if in, ok := spec.chained[n.UID]; ok {
			byUID[in[0].From].children = append(byUID[in[0].From].children, child{tag: in[0].Tag, to: l})
			l.keyers, l.inline = keyers(in), true
		}
	}
	t.env = t.links[0].env
	t.links[0].keyers = keyers(spec.head.Inputs)
	for _, e := range a.layout.edges {
		if e.from == spec {
			l := byUID[e.node.UID]
			l.children = append(l.children, child{tag: e.input.Tag, ex: a.buildExchange(e, subtask, inboxes[e.to], l)})
			t.sends = true
		}
	}
	return t, nil
}

// keyers makes the keyers of a component's inputs, nil when none has a key.
func keyers(inputs []Input) []Keyer {
	out, keyed := make([]Keyer, len(inputs)), false
	for i, in := range inputs {
		if in.Key != nil {
			out[i], keyed = in.Key.New(), true
		}
	}
	if !keyed {
		return nil
	}
	return out
}

// buildLink makes and opens one component of a task.
func (a *attempt) buildLink(ctx context.Context, t *task, n *Node, subtask int) (*link, error) {
	c := &stream.Counters{}
	l := &link{node: n, env: a.env(n, subtask, c), c: c, where: &t.where}
	l.out = &output{node: n, c: c, onSkip: func(r *stream.Record, err error) {
		l.env.Log.Warn("record skipped", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
	}}
	if t.in != nil && len(t.links) == 0 {
		c.QueueFill = t.in.fill
	}
	t.links = append(t.links, l)
	a.o.Listener.OnTask(l.env.Task(), string(n.Kind), c)
	switch {
	case n.Source != nil:
		t.reader = n.Source.NewReader()
		t.ctl.wake = t.reader.Wake
		l.op = forward{}
		return l, t.reader.Open(ctx, source.Env{Env: l.env, Schema: n.Out}, slices.Clone(a.splits[l.env.Task()]))
	case n.Sink != nil:
		l.writer, l.commits = n.Sink.NewWriter(), a.committers[n.UID] != nil
		kept, err := a.writerState(ctx, &l.env)
		if err != nil {
			return nil, err
		}
		if err := l.writer.Open(ctx, l.env, kept); err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.writers[l.env.Task()] = l.writer
		a.mu.Unlock()
		return l, nil
	}
	if len(n.Operator.Keyed) > 0 {
		if a.backend == nil {
			return nil, fmt.Errorf("the component has keyed state, and the job no state backend")
		}
		s, err := a.backend.Open(ctx, state.Spec{Task: l.env.Task(), KeyGroups: l.env.KeyGroups, Descriptors: n.Operator.Keyed, Counters: c})
		if err != nil {
			return nil, err
		}
		l.store = s
	}
	l.op = n.Operator.New()
	env := transform.Env{Env: l.env}
	if l.store != nil {
		env.Keyed = newTimed(l.store, &l.env)
	}
	return l, l.op.Open(ctx, env)
}

// writerState returns what the restored checkpoint kept for a writer, the bytes in the
// handles. With less subtasks than before, those that are left take over from those that
// are gone: it may be rows that nobody else has.
func (a *attempt) writerState(ctx context.Context, env *stream.Env) (kept []state.Handle, err error) {
	if a.restored == nil || a.o.Restore.Empty {
		return nil, nil
	}
	for i := range a.restored.Tasks {
		s := &a.restored.Tasks[i]
		if s.UID != env.UID || s.Subtask%env.Parallelism != env.Subtask {
			continue
		}
		for _, h := range s.Handles {
			if h, err = a.inline(ctx, h); err != nil {
				return nil, err
			}
			kept = append(kept, h)
		}
	}
	return kept, nil
}

// inline returns a handle with its bytes in it.
func (a *attempt) inline(ctx context.Context, h state.Handle) (state.Handle, error) {
	if h.Scope == state.Inline {
		return h, nil
	}
	r, err := a.objects.Read(ctx, h)
	if err != nil {
		return h, err
	}
	b, err := io.ReadAll(r)
	return state.Handle{Role: h.Role, Scope: state.Inline, Bytes: b, Size: h.Size, CRC: h.CRC}, errors.Join(err, r.Close())
}

// buildExchange makes the sending side of an edge for one subtask.
func (a *attempt) buildExchange(e *edgeSpec, subtask int, to []*inbox, l *link) *exchange {
	x := &exchange{spec: e, next: subtask, clock: a.o.World.Clock, c: l.c, where: l.where, whole: a.graph.lettersBehind(e.user)}
	first := 0 // the first input the edge has at its target
	for _, other := range e.to.inputs {
		if other == e {
			break
		}
		first += other.senders()
	}
	if e.forward() {
		x.targets = []*target{{id: e.to.id(subtask), in: to[subtask], input: first}}
		return x
	}
	for i, in := range to {
		x.targets = append(x.targets, &target{id: e.to.id(i), in: in, input: first + subtask})
	}
	if e.input.Key == nil {
		return x
	}
	x.keyer = e.input.Key.New()
	m := a.graph.maxParallelism()
	x.byGroup = make([]int32, m)
	for g := range x.byGroup {
		x.byGroup[g] = int32(stream.SubtaskOf(stream.KeyGroup(g), e.to.parallelism, m))
	}
	return x
}

// forward is the operator of a source: it passes batches on.
type forward struct{}

func (forward) Open(context.Context, transform.Env) error { return nil }

func (forward) Process(_ context.Context, b *stream.Batch, out transform.Output) error {
	b.Retain()
	out.EmitBatch(b)
	return nil
}

func (forward) Close() error { return nil }
