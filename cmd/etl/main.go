// Command etl runs exactly-once pipelines from Kafka through keyed state into
// Kafka, and looks after them: see README.md and etl help.
//
// This package only wires: it joins adapters to the engine, turns flags into
// options and results into output. Every command prints data on standard output
// and what it has to say about it on standard error; with --json the last line of
// standard output is one object.
package main

import "os"

func main() { os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
