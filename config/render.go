package config

import (
	"fmt"
	"io"
	"strings"
)

// Style says how text is rendered. The zero Style is for files and pipes.
type Style struct {
	// Color uses ANSI colours: for terminals only.
	Color bool
}

// The colours.
const (
	red    = "31"
	yellow = "33"
	cyan   = "36"
	green  = "32"
	bold   = "1"
	faint  = "2"
)

func (s Style) paint(color, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Render writes the problems for people, with a line that counts them.
func (ps Problems) Render(w io.Writer, s Style) error {
	var b strings.Builder
	for _, p := range ps {
		p.render(&b, s)
	}
	errors, warnings := ps.Count()
	if len(ps) > 0 {
		fmt.Fprintf(&b, "%s, %s\n", count(errors, "error"), count(warnings, "warning"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// render writes one problem:
//
//	error config.unknown_key  pipeline.yaml:23:5  sources.lines.topic
//	  unknown key "topic"
//	    22 |     connection: main
//	    23 |     topic: text.lines
//	       |     ^
//	  -> did you mean "topics" (a list)?
func (p Problem) render(b *strings.Builder, s Style) {
	color := red
	if p.Severity == Warning {
		color = yellow
	}
	head := []string{s.paint(color, string(p.Severity)+" "+p.Code), s.paint(bold, p.Place())}
	if p.Path != "" {
		head = append(head, s.paint(cyan, p.Path))
	}
	fmt.Fprintf(b, "%s\n  %s\n", strings.Join(head, "  "), p.Message)
	if p.Excerpt != "" {
		lines := strings.Split(p.Excerpt, "\n")
		for _, line := range lines[:len(lines)-1] {
			fmt.Fprintf(b, "    %s\n", s.paint(faint, line))
		}
		fmt.Fprintf(b, "    %s\n", s.paint(color, lines[len(lines)-1]))
	}
	if p.Fix != "" {
		fmt.Fprintf(b, "  %s %s\n", s.paint(green, "->"), p.Fix)
	}
	b.WriteByte('\n')
}
