package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"etl/stream"
)

// Render writes the plan for people.
func (p *Plan) Render(w io.Writer, s Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  max_parallelism %d  config %s\n", s.paint(bold, p.Pipeline), p.File, p.MaxParallelism, p.ConfigHash[:min(8, len(p.ConfigHash))])
	p.renderTasks(&b, s)
	p.renderGuarantees(&b, s)
	p.renderTime(&b, s)
	if p.Start != nil {
		p.renderStart(&b, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func head(b *strings.Builder, s Style, title string) {
	fmt.Fprintf(b, "\n%s\n", s.paint(bold, title))
}

// table aligns rows of columns.
func table(b *strings.Builder, rows [][]string) {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, "  "+strings.Join(r, "\t"))
	}
	_ = w.Flush() // a strings.Builder does not fail
	for line := range strings.Lines(aligned.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

func (p *Plan) renderTasks(b *strings.Builder, s Style) {
	head(b, s, "tasks")
	var rows [][]string
	for _, t := range p.Tasks {
		rows = append(rows, []string{t.Name, "x" + strconv.Itoa(t.Parallelism), t.chain()})
	}
	table(b, rows)
	if len(p.Exchanges) == 0 {
		return
	}
	head(b, s, "exchanges")
	rows = nil
	for _, e := range p.Exchanges {
		how := map[string]string{"key": "by " + e.Key, "forward": "each subtask to that of the same number", "dealt": "dealt out in turn"}[e.How]
		rows = append(rows, []string{fmt.Sprintf("%s => %s", outputName(e.From, e.Output), e.To), how})
	}
	table(b, rows)
}

// chain writes the components of a task in a line. One that takes from another one
// than that before it says so.
func (t *PlanTask) chain() string {
	var b strings.Builder
	for i, c := range t.Components {
		switch {
		case i == 0:
		case c.Inputs[0] == t.Components[i-1].UID && c.Output == "":
			b.WriteString(" -> ")
		default:
			fmt.Fprintf(&b, "; %s -> ", outputName(c.Inputs[0], c.Output))
		}
		b.WriteString(c.String())
	}
	return b.String()
}

// outputName names an output of a component.
func outputName(uid stream.UID, output stream.Tag) string {
	switch output {
	case "":
		return string(uid)
	case letterTag:
		return string(uid) + " dead letters"
	}
	return string(uid) + "." + string(output)
}

// String returns the component as plans show it.
func (c PlanComponent) String() string {
	parts := []string{c.Type}
	if c.Detail != "" {
		parts = append(parts, c.Detail)
	}
	if c.Keyed {
		parts = append(parts, "state")
	}
	if c.OnError == "skip" {
		parts = append(parts, "skips bad records")
	}
	if c.OnError == "dead_letter" {
		parts = append(parts, "dead letters")
	}
	return fmt.Sprintf("%s (%s)", c.UID, strings.Join(parts, ", "))
}

func (p *Plan) renderGuarantees(b *strings.Builder, s Style) {
	head(b, s, "guarantees")
	for _, g := range p.Guarantees {
		color := green
		if g.Level != ExactlyOnce {
			color = yellow
		}
		fmt.Fprintf(b, "  %s\n", s.paint(color, g.String()))
		if g.Weakest != nil {
			fmt.Fprintf(b, "      %s\n", g.Weakest.Why)
		}
		for _, n := range g.Notes {
			fmt.Fprintf(b, "      %s\n", n)
		}
	}
}

func (p *Plan) renderTime(b *strings.Builder, s Style) {
	head(b, s, "time")
	t := p.Time
	if t.Interval == 0 {
		b.WriteString("  no checkpoints are taken\n")
		return
	}
	rows := [][]string{{"checkpoints", fmt.Sprintf("%s, every %v, given up after %v, kept in %s", t.Mode, t.Interval, t.Timeout, p.Storage)}}
	if p.State != "" {
		rows = append(rows, []string{"state", p.State})
	}
	for _, x := range t.Transactions {
		rows = append(rows, []string{x.Sink, fmt.Sprintf("transaction timeout %v - worst age %v = %v of outage that loses nothing; after a longer one it goes back a checkpoint, or declares the loss (exit 5)", x.Timeout, t.WorstAge, x.Outage)})
	}
	for _, x := range t.Outages {
		rows = append(rows, []string{x.Sink, x.Effect})
	}
	if t.Restarts != nil {
		rows = append(rows, []string{"restarts", fmt.Sprintf("%d: an outage that outlasts them ends the job (exit 1), and the next run goes on from its last checkpoint", *t.Restarts)})
	}
	table(b, rows)
}

func (p *Plan) renderStart(b *strings.Builder, s Style) {
	head(b, s, "start")
	st := p.Start
	if st.Checkpoint == "" {
		fmt.Fprintf(b, "  attempt %d begins anew: there is no checkpoint in %s\n", st.Attempt, p.Storage)
		return
	}
	changed := ""
	if st.ConfigChanged {
		changed = "; the file has changed since"
	}
	fmt.Fprintf(b, "  attempt %d restores checkpoint %s (%s, %v old) from %s%s\n", st.Attempt, st.Checkpoint, st.Kind, st.Age, p.Storage, changed)
	var rows [][]string
	for _, c := range st.Changes {
		rows = append(rows, []string{fateSigns[c.Fate] + " " + string(c.UID), c.Fate, c.detail()})
	}
	table(b, rows)
	for _, x := range st.Pending {
		fmt.Fprintf(b, "  first commits %d rows of %s/%d at checkpoint %s%s\n", x.Rows, x.Sink, x.Subtask, x.Checkpoint, x.left())
	}
	for _, r := range st.Refused {
		fmt.Fprintf(b, "  %s %s\n", s.paint(red, "refused:"), r)
	}
	if st.Fix != "" {
		fmt.Fprintf(b, "  %s %s\n", s.paint(green, "->"), st.Fix)
	}
}

var fateSigns = map[string]string{"kept": "~", "new": "+", "dropped": "-", "refused": "!"}

func (c PlanChange) detail() string {
	switch {
	case c.Why != "":
		return c.Why
	case c.Partitions > 0:
		return count(c.Partitions, "partition")
	case c.Bytes > 0:
		return about(c.Bytes)
	}
	return ""
}

// about shortens a number of bytes to three digits.
func about(n int64) string {
	for _, u := range units[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(float64(n)/float64(u.bytes), 'f', 1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func (x PlanPending) left() string {
	switch {
	case x.Left == nil:
		return ""
	case *x.Left < 0:
		return fmt.Sprintf(", whose timeout passed %v ago", -*x.Left)
	}
	return fmt.Sprintf(", which time out in %v", *x.Left)
}
