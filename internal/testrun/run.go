package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// result is what a tier came to.
type result struct {
	tier    tier
	outcome string // ran, FAILED, SKIPPED, left out, none yet
	passed  int
	failed  int
	skipped int
	notes   []string // the TIER SKIPPED lines, and what else must be said
	found   findings // skipped and failed, by name
	took    time.Duration
}

func (r result) bad() bool { return r.outcome == "FAILED" || r.outcome == "SKIPPED" }

func run(t tier, byKind map[string][]string) result {
	r := result{tier: t}
	start := time.Now()
	fmt.Printf("\n=== %s: %s\n", t.name, t.about)
	if len(t.command) > 0 {
		r.command()
	} else {
		r.tests(byKind)
	}
	r.took = time.Since(start)
	fmt.Printf("=== %s: %s, %.0f s\n", t.name, r.outcome, r.took.Seconds())
	return r
}

func (r *result) command() {
	cmd := exec.Command(r.tier.command[0], r.tier.command[1:]...)
	cmd.Env = append(os.Environ(), r.tier.env...)
	out, err := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.fail(err)
		return
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		fmt.Println(s.Text())
		r.note(s.Text())
	}
	r.outcome = "ran"
	if err := cmd.Wait(); err != nil {
		r.fail(err)
	}
}

func (r *result) fail(err error) {
	r.outcome = "FAILED"
	r.notes = append(r.notes, err.Error())
}

// note keeps what a test said when its server was missing (internal/testservice.Skip).
func (r *result) note(line string) {
	if i := strings.Index(line, "TIER SKIPPED "); i >= 0 {
		if text := line[i:]; len(r.notes) == 0 || r.notes[len(r.notes)-1] != text {
			r.notes = append(r.notes, text)
		}
	}
}

func (r *result) tests(byKind map[string][]string) {
	pkgs := slices.Clone(r.tier.pkgs)
	for _, k := range r.tier.kinds {
		pkgs = append(pkgs, byKind[k]...)
	}
	if len(pkgs) == 0 {
		r.outcome = "none yet"
		return
	}
	args := append(append([]string{"test", "-json", "-timeout=20m"}, lean...), r.tier.flags...)
	cmd := exec.Command("go", append(args, pkgs...)...)
	cmd.Env = append(os.Environ(), r.tier.env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.read(out)
	r.outcome = "ran"
	if err := cmd.Wait(); err != nil {
		r.fail(err)
	}
	r.judge()
}

// judge: tests that were skipped for want of a server, or a tier in which nothing ran, are no pass.
func (r *result) judge() {
	skippedTier := false
	for _, n := range r.notes {
		skippedTier = skippedTier || strings.HasPrefix(n, "TIER SKIPPED ")
	}
	if r.outcome == "ran" && (skippedTier || r.passed == 0) {
		r.outcome = "SKIPPED"
	}
}

// event is one line of "go test -json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// read follows the events: it counts tests and shows the output of those that failed.
func (r *result) read(out io.Reader) {
	shown := output{}
	for dec := json.NewDecoder(out); ; {
		var e event
		if err := dec.Decode(&e); err != nil {
			if err != io.EOF {
				r.notes = append(r.notes, "go test printed what is not JSON: "+err.Error())
			}
			return
		}
		r.count(e)
		r.found.take(e)
		r.note(strings.TrimSpace(e.Output))
		shown.take(e)
	}
}

// count counts tests, not their subtests.
func (r *result) count(e event) {
	if e.Test == "" || strings.Contains(e.Test, "/") {
		return
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
	case "skip":
		r.skipped++
	}
}

// output holds back what a test prints until it is known to have failed.
type output map[string]*strings.Builder

func (o output) take(e event) {
	top, _, _ := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	switch {
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "testing: warning: no tests") {
			fmt.Print(e.Output) // "ok  package  1.2s", or a panic
		}
	case e.Action == "output":
		if o[key] == nil {
			o[key] = &strings.Builder{}
		}
		o[key].WriteString(e.Output)
	case e.Action == "fail" && e.Test == top && o[key] != nil:
		fmt.Print(o[key].String())
		delete(o, key)
	case (e.Action == "pass" || e.Action == "skip") && e.Test == top:
		delete(o, key)
	}
}
