package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"etl/checkpoint"
)

// Level is how often a record of a source affects the output of a path.
type Level uint8

// The levels, weakest first.
const (
	// NoGuarantee: a failure may lose records and repeat others.
	NoGuarantee Level = iota
	// AtMostOnce: a failure may lose records.
	AtMostOnce
	// AtLeastOnce: a failure may repeat records.
	AtLeastOnce
	// EffectivelyOnce: a failure may show readers values again that they have seen; in the
	// end each key has the value that ExactlyOnce gives it.
	EffectivelyOnce
	// ExactlyOnce: neither.
	ExactlyOnce
)

// String returns the level as plans and logs word it.
func (l Level) String() string {
	return [...]string{"no guarantee", "at most once", "at least once", "effectively once", "exactly once"}[l]
}

// MarshalText returns the level as metrics and JSON word it: exactly_once.
func (l Level) MarshalText() ([]byte, error) {
	return []byte(strings.ReplaceAll(l.String(), " ", "_")), nil
}

// Limit is a setting that makes a guarantee weaker.
type Limit struct {
	Level Level `json:"level"`
	// Setting is the key and its value, such as "sinks.out.delivery: at_least_once".
	// Factories give it relative to their component.
	Setting string `json:"setting"`
	// Why is a sentence.
	Why string `json:"why"`
}

// Guarantee is what one path from a source to a sink gives.
type Guarantee struct {
	// Source and Sink are names of components, Path all that lie between, and both.
	Source string   `json:"source"`
	Sink   string   `json:"sink"`
	Path   []string `json:"path"`
	// DeadLetters says that the sink gets the dead letters of the component before it,
	// not its output.
	DeadLetters bool  `json:"dead_letters,omitempty"`
	Level       Level `json:"level"`
	// Weakest is the first of the settings that lower the level, absent when it is
	// exactly once.
	Weakest *Limit `json:"weakest,omitempty"`
	// Delivery is how the sink gives it, such as two_phase.
	Delivery string `json:"delivery"`
	// Visible is the time after which output can be read, at most, as a duration;
	// 0s when it is at once.
	Visible Duration `json:"visible"`
	// Notes are what the reader of the output should know besides.
	Notes []string `json:"notes,omitempty"`
}

// String returns the guarantee in one line.
func (g Guarantee) String() string {
	path := strings.Join(g.Path, " -> ")
	if n := len(g.Path) - 1; g.DeadLetters {
		path = strings.Join(g.Path[:n], " -> ") + ", dead letters -> " + g.Path[n]
	}
	s := fmt.Sprintf("%s: %s (%s", path, g.Level, g.Delivery)
	if g.Visible > 0 {
		s += fmt.Sprintf(", visible every %v", g.Visible)
	}
	s += ")"
	if g.Weakest != nil {
		s += "; weakest link: " + g.Weakest.Setting
	}
	return s
}

// route is what the calculus needs to know of a path.
type route struct {
	mode    checkpoint.Mode
	storage string   // scheme
	parts   []string // names, the source first, the sink last; with the output, if it has one
	letters bool     // the last hop is that of dead letters
	limits  []Limit  // of the components on the path
	// transactional says that the sink commits; delivery is its word.
	transactional bool
	delivery      string
	interval      Duration
	skips         []string          // components that skip what they cannot process
	random        map[string]string // components whose output a replay may change, and why
	said          []string          // what the sink says of its output
}

// guarantee is the calculus: a path is as strong as its weakest link.
func (r route) guarantee() Guarantee {
	g := Guarantee{Source: r.parts[0], Sink: r.parts[len(r.parts)-1], Path: r.parts, DeadLetters: r.letters, Level: ExactlyOnce, Delivery: r.delivery}
	limits := append(r.jobLimits(), r.limits...)
	slices.SortStableFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Level, b.Level) })
	if len(limits) > 0 {
		g.Level, g.Weakest = limits[0].Level, &limits[0]
	}
	if r.transactional {
		g.Visible = r.interval
	}
	g.Notes = r.notes(g.Level)
	return g
}

// jobLimits are those of the checkpoint section.
func (r route) jobLimits() (out []Limit) {
	switch r.mode {
	case checkpoint.None:
		return []Limit{{AtMostOnce, "checkpoint.mode: none", "without checkpoints a failure loses what was under way"}}
	case checkpoint.AtLeastOnce:
		out = append(out, Limit{AtLeastOnce, "checkpoint.mode: at_least_once", "barriers are not aligned, so that state may hold records that are read again"})
	}
	if r.storage == "memory" {
		out = append(out, Limit{NoGuarantee, "checkpoint.storage: memory:", "checkpoints are gone when the process ends"})
	}
	return out
}

func (r route) notes(l Level) (out []string) {
	for _, name := range r.skips {
		out = append(out, name+" skips and counts records that it cannot process (on_error: skip)")
	}
	for _, name := range r.parts {
		if why := r.random[name]; why != "" && l != ExactlyOnce {
			out = append(out, name+" may give other output in a replay: "+why)
		}
	}
	return append(out, r.said...)
}

// Guarantees returns what each path from a source to a sink gives, in the order
// of the file.
func (j *Job) Guarantees() []Guarantee {
	var out []Guarantee
	for _, c := range j.Components {
		if c.Section == Sinks {
			for _, path := range c.paths() {
				out = append(out, j.route(path).guarantee())
			}
		}
	}
	return out
}

// maxPaths bounds how many paths to one sink are looked at: a graph of diamonds
// has a number of them that is exponential in its size.
const maxPaths = 100

// paths returns the ways from sources to c: components, each with the output that
// leads on.
func (c *Component) paths() (out [][]input) {
	if c.Section == Sources {
		return [][]input{{{c, ""}}}
	}
	from := slices.Clone(c.inputs)
	for _, l := range c.letters {
		from = append(from, input{l, letterTag})
	}
	for _, in := range from {
		for _, p := range in.paths() {
			if len(out) < maxPaths {
				p = slices.Clone(p)
				p[len(p)-1].output = in.output
				out = append(out, append(p, input{c, ""}))
			}
		}
	}
	return out
}

func (j *Job) route(path []input) route {
	r := route{mode: j.Policy.Mode, storage: j.Storage.Scheme, interval: Duration(j.Policy.Interval), random: map[string]string{}}
	for i, in := range path {
		c, last := in.Component, i == len(path)-1
		r.letters = i == len(path)-2 && in.output == letterTag || last && r.letters
		if in.output == letterTag {
			in.output = ""
		}
		r.parts = append(r.parts, in.String())
		for _, l := range c.parts.Limits {
			if c.Section == Sinks && !last {
				break // how it writes rows is nothing to those it cannot write
			}
			l.Setting = child(c.node.path, l.Setting)
			r.limits = append(r.limits, l)
		}
		if c.common.OnError == "skip" {
			r.skips = append(r.skips, c.Name)
		}
		if o := c.parts.Operator; o != nil && o.NonDeterministic != "" {
			r.random[c.Name] = o.NonDeterministic
		}
	}
	sink := path[len(path)-1]
	r.transactional, r.delivery, r.said = sink.transactional(j.Policy.Mode), sink.parts.Sink.Delivery, sink.parts.Notes
	return r
}
