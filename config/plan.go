package config

import (
	"strings"
	"time"

	"etl/checkpoint"
	"etl/internal/invariant"
	"etl/pipeline"
	"etl/stream"
)

// Plan says what a start of the job would do. It is plain data: --json prints it
// as it is, Render writes it for people.
type Plan struct {
	Pipeline       string         `json:"pipeline"`
	File           string         `json:"file"`
	ConfigHash     string         `json:"config_hash"`
	MaxParallelism int            `json:"max_parallelism"`
	Tasks          []PlanTask     `json:"tasks"`
	Exchanges      []PlanExchange `json:"exchanges,omitempty"`
	Guarantees     []Guarantee    `json:"guarantees"`
	Time           PlanTime       `json:"time"`
	Storage        string         `json:"storage"`
	State          string         `json:"state,omitempty"`
	// Start is what happens to stored state; absent when nobody looked at it.
	Start *PlanStart `json:"start,omitempty"`
}

// PlanTask is a chain of components that run together, in Parallelism subtasks.
type PlanTask struct {
	Name        string          `json:"name"`
	Parallelism int             `json:"parallelism"`
	Components  []PlanComponent `json:"components"`
}

// PlanComponent is one component of a task.
type PlanComponent struct {
	UID     stream.UID `json:"uid"`
	Kind    string     `json:"kind"`
	Type    string     `json:"type"`
	Detail  string     `json:"detail,omitempty"`
	Keyed   bool       `json:"keyed,omitempty"`
	OnError string     `json:"on_error"`
	// Inputs are the components of the same task that it takes from; Output is the
	// side output of them that it takes, such as dead_letter.
	Inputs []stream.UID `json:"inputs,omitempty"`
	Output stream.Tag   `json:"output,omitempty"`
}

// PlanExchange is a hop of records between two tasks.
type PlanExchange struct {
	From   stream.UID `json:"from"`
	Output stream.Tag `json:"output,omitempty"`
	To     stream.UID `json:"to"`
	// How is key, forward (to the subtask of the same number) or dealt (to each in
	// turn); Key the expression.
	How string `json:"how"`
	Key string `json:"key,omitempty"`
}

// PlanTime is the arithmetic of Policy.WorstAge and Policy.DrainFor. Zero durations do not apply.
type PlanTime struct {
	Mode     string   `json:"mode"`
	Interval Duration `json:"interval"`
	Timeout  Duration `json:"timeout"`
	// WorstAge is how old a transaction can be when its checkpoint is published.
	WorstAge Duration `json:"worst_age,omitempty"`
	// Outage is how long the job may be down after that without losing anything.
	Outage Duration `json:"outage,omitempty"`
	// Transactions are the sinks whose transactions have a timeout.
	Transactions []PlanTransaction `json:"transactions,omitempty"`
	// Outages are the other sinks.
	Outages []PlanOutage `json:"outages,omitempty"`
	// Restarts is after how many restarts the job ends; absent for never.
	Restarts *int `json:"restarts,omitempty"`
}

// PlanOutage is what an outage of a sink does.
type PlanOutage struct {
	Sink   string `json:"sink"`
	Effect string `json:"effect"`
}

// PlanTransaction is the timeout of one sink.
type PlanTransaction struct {
	Sink    string   `json:"sink"`
	Timeout Duration `json:"timeout"`
	Outage  Duration `json:"outage"`
}

// Plan returns the plan of the job. history is what its storage holds, nil when
// nobody looked; now is the time to tell ages with.
func (j *Job) Plan(history *checkpoint.History, now time.Time, allowDropped ...stream.UID) *Plan {
	p := &Plan{Pipeline: j.Graph.Name, File: j.File, ConfigHash: j.ConfigHash, MaxParallelism: j.Spec.MaxParallelism,
		Guarantees: j.Guarantees(), Storage: j.storageRoot(), Time: j.planTime()}
	p.Tasks, p.Exchanges = j.planTasks()
	if j.keyed() {
		p.State = j.Spec.State.Backend
		if p.State != "memory" {
			p.State += " in " + j.State.Dir
		}
	}
	if history != nil {
		p.Start = j.planStart(history, now, allowDropped)
	}
	return p
}

// storageRoot is where the checkpoints of the job are: a folder of its name.
func (j *Job) storageRoot() string {
	if j.Storage.Path == "" {
		return j.Storage.String()
	}
	return j.Storage.String() + "/" + j.Graph.Name
}

// keyed reports whether a component has keyed state.
func (j *Job) keyed() bool {
	for _, n := range j.Graph.Nodes {
		if n.Operator != nil && len(n.Operator.Keyed) > 0 {
			return true
		}
	}
	return false
}

func (j *Job) planTime() PlanTime {
	t := PlanTime{Mode: string(j.Policy.Mode), Interval: Duration(j.Policy.Interval), Timeout: Duration(j.Policy.Timeout)}
	if j.Policy.Mode == checkpoint.None {
		return PlanTime{Mode: t.Mode}
	}
	switch n := j.Spec.Restart.strategy().Attempts; {
	case n == pipeline.NoRestart:
		t.Restarts = new(int)
	case n > 0:
		t.Restarts = &n
	}
	for _, c := range j.Components {
		if c.parts.Outage != "" {
			t.Outages = append(t.Outages, PlanOutage{c.Name, c.parts.Outage})
		}
		if !c.transactional(j.Policy.Mode) || c.parts.Sink.Features.Timeout == 0 {
			continue
		}
		timeout := c.parts.Sink.Features.Timeout
		if drain, err := j.Policy.DrainFor(timeout); err == nil {
			t.Transactions = append(t.Transactions, PlanTransaction{c.Name, Duration(timeout), Duration(drain)})
		}
		t.WorstAge, t.Outage = Duration(j.Policy.WorstAge()), Duration(j.Policy.Drain)
	}
	return t
}

// planTasks words the layout that the engine would run.
func (j *Job) planTasks() (tasks []PlanTask, exchanges []PlanExchange) {
	chains, hops, err := j.Graph.Layout()
	invariant.Check(err == nil, "the loader let a graph pass that has no layout: %v", err)
	for _, ch := range chains {
		t := PlanTask{Name: string(ch.Nodes[0].UID), Parallelism: ch.Parallelism}
		for i, n := range ch.Nodes {
			c := PlanComponent{UID: n.UID, Kind: string(n.Kind), Type: n.Type, Detail: n.Detail,
				Keyed: n.Operator != nil && len(n.Operator.Keyed) > 0, OnError: string(n.OnError)}
			if i > 0 {
				c.Inputs, c.Output = []stream.UID{n.Inputs[0].From}, n.Inputs[0].Tag
			}
			t.Components = append(t.Components, c)
		}
		tasks = append(tasks, t)
	}
	for _, h := range hops {
		e := PlanExchange{From: h.Input.From, Output: h.Input.Tag, To: h.To, How: "dealt"}
		switch {
		case h.Input.Key != nil:
			e.How, e.Key = "key", h.Input.Key.Text
		case h.Forward:
			e.How = "forward"
		}
		exchanges = append(exchanges, e)
	}
	return tasks, exchanges
}

// Err returns why the job would not start from what is stored: an error of class
// RestoreRefused, or nil.
func (p *Plan) Err() error {
	if p.Start == nil || len(p.Start.Refused) == 0 {
		return nil
	}
	return stream.Errorf(stream.RestoreRefused, "restore.incompatible", "plan", p.Start.Checkpoint, "%s", strings.Join(p.Start.Refused, "; ")).
		WithFix("%s", p.Start.Fix)
}
