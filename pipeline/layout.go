package pipeline

import (
	"slices"

	"etl/stream"
)

// taskSpec is a chain of components that run in one task, for each subtask.
type taskSpec struct {
	head        *Node
	parallelism int
	nodes       []*Node     // in the order in which inputs come before users
	inputs      []*edgeSpec // empty for a source
	chained     map[stream.UID][]Input
}

// edgeSpec is an exchange between two tasks.
type edgeSpec struct {
	from, to *taskSpec
	node     *Node // the component in from whose output it takes
	user     *Node // the head of to
	input    Input
	port     stream.Port
}

// forward reports whether each subtask sends to the one with its own number.
func (e *edgeSpec) forward() bool {
	return e.input.Key == nil && e.from.parallelism == e.to.parallelism
}

// senders returns how many inputs the edge gives each subtask of its target.
func (e *edgeSpec) senders() int {
	if e.forward() {
		return 1
	}
	return e.from.parallelism
}

// layout is the plan of a graph: tasks and the exchanges between them.
type layout struct {
	tasks []*taskSpec
	edges []*edgeSpec
	task  map[stream.UID]*taskSpec // of each component
}

// newLayout chains what can be chained.
func newLayout(g *Graph) (*layout, error) {
	nodes, err := g.sorted()
	if err != nil {
		return nil, err
	}
	l := &layout{task: map[stream.UID]*taskSpec{}}
	for _, n := range nodes {
		if t := l.chain(g, n); t != nil {
			t.nodes = append(t.nodes, n)
			t.chained[n.UID] = n.Inputs
			l.task[n.UID] = t
			continue
		}
		t := &taskSpec{head: n, parallelism: g.parallelism(n), nodes: []*Node{n}, chained: map[stream.UID][]Input{}}
		l.task[n.UID] = t
		l.tasks = append(l.tasks, t)
		for i, in := range n.Inputs {
			e := &edgeSpec{from: l.task[in.From], to: t, node: g.Node(in.From), user: n, input: in, port: stream.Port(i)}
			t.inputs, l.edges = append(t.inputs, e), append(l.edges, e)
		}
	}
	return l, nil
}

// chain returns the task that n joins, nil when it needs its own: it joins the
// task of its only input if every record would stay in the subtask it is in.
func (l *layout) chain(g *Graph, n *Node) *taskSpec {
	if len(n.Inputs) != 1 {
		return nil
	}
	in := n.Inputs[0]
	t := l.task[in.From]
	if t == nil || t.parallelism != g.parallelism(n) {
		return nil
	}
	if in.Key != nil && t.parallelism > 1 {
		return nil
	}
	return t
}

// lettersBehind reports whether n, or a component that records of n may reach, makes
// dead letters.
func (g *Graph) lettersBehind(n *Node) bool {
	reached, todo := map[stream.UID]bool{n.UID: true}, []*Node{n}
	for len(todo) > 0 {
		n, todo = todo[0], todo[1:]
		if n.OnError == DeadLetter {
			return true
		}
		for _, user := range g.Nodes {
			takes := slices.ContainsFunc(user.Inputs, func(in Input) bool { return in.From == n.UID && in.Tag != DeadLetterTag })
			if takes && !reached[user.UID] {
				reached[user.UID], todo = true, append(todo, user)
			}
		}
	}
	return false
}

// inputs returns the number of inputs of each subtask of t.
func (t *taskSpec) inputCount() (n int) {
	for _, e := range t.inputs {
		n += e.senders()
	}
	return n
}

// id returns the name of a subtask of the task.
func (t *taskSpec) id(subtask int) stream.TaskID {
	return stream.TaskID{UID: t.head.UID, Subtask: subtask}
}

// Chain is the components that run in one task, for plans: the head first.
type Chain struct {
	Nodes       []*Node
	Parallelism int
}

// Hop is an exchange between two chains, for plans.
type Hop struct {
	Input Input
	To    stream.UID
	// Forward says that each subtask sends to the one with its own number.
	Forward bool
}

// Layout returns how the engine would run the graph, which has been validated.
func (g *Graph) Layout() ([]Chain, []Hop, error) {
	l, err := newLayout(g)
	if err != nil {
		return nil, nil, err
	}
	var chains []Chain
	for _, t := range l.tasks {
		chains = append(chains, Chain{Nodes: t.nodes, Parallelism: t.parallelism})
	}
	var hops []Hop
	for _, e := range l.edges {
		hops = append(hops, Hop{Input: e.input, To: e.user.UID, Forward: e.forward()})
	}
	return chains, hops, nil
}
