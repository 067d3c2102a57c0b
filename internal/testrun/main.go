package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	list := flag.Bool("list", false, "print the table of tiers and stop")
	flag.Parse()
	if *list {
		printTiers()
		return
	}
	chosen, err := choose(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(2)
	}
	byKind, err := packages()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	// What is tested is what is shipped: with cgo, Pebble has another allocator and another
	// zstd, and everything would be compiled twice.
	if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	var results []result
	for _, t := range chosen {
		if leftOut(t.name) {
			results = append(results, result{tier: t, outcome: "left out"})
			continue
		}
		results = append(results, run(t, byKind))
	}
	if !report(results) {
		os.Exit(1)
	}
}

// choose takes names of tiers and of groups; nothing means the group "test".
func choose(names []string) ([]tier, error) {
	if len(names) == 0 {
		names = []string{"test"}
	}
	var chosen []tier
	for _, name := range names {
		found := slices.Collect(func(yield func(tier) bool) {
			for _, t := range tiers {
				if (t.name == name || t.group == name) && !yield(t) {
					return
				}
			}
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("no tier or group %q; -list shows them", name)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}

func leftOut(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("ETL_SKIP_TIERS"), ","), name)
}

func printTiers() {
	for _, t := range tiers {
		fmt.Printf("%-8s %-20s %s\n", t.group, t.name, t.about)
	}
}

// report prints the table and says whether all is well. The last line is for machines.
func report(results []result) bool {
	var sum result
	fmt.Printf("\n%-20s %-9s %8s %7s %7s %8s\n", "tier", "outcome", "seconds", "passed", "failed", "skipped")
	bad := 0
	for _, r := range results {
		fmt.Printf("%-20s %-9s %8.0f %7d %7d %8d\n", r.tier.name, r.outcome, r.took.Seconds(), r.passed, r.failed, r.skipped)
		sum.passed, sum.failed, sum.skipped = sum.passed+r.passed, sum.failed+r.failed, sum.skipped+r.skipped
		sum.took += r.took
		if r.bad() {
			bad++
		}
	}
	for _, r := range results {
		for _, n := range r.notes {
			fmt.Printf("%s: %s\n", r.tier.name, n)
		}
		for _, s := range r.found.all {
			fmt.Printf("%s: %s\n", r.tier.name, s)
		}
	}
	if bad > 0 {
		fmt.Printf("%d tiers failed or were skipped. To leave one out on purpose: ETL_SKIP_TIERS=name,name\n", bad)
	}
	fmt.Printf("total %v\n", sum.took.Round(time.Second))
	// A tier that fails without a failed test (lint, a build) must count too.
	if bad+sum.passed+sum.skipped == 0 {
		return true // only tiers that have no tests yet
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.passed, max(sum.failed, bad), sum.skipped)
	return bad == 0
}
