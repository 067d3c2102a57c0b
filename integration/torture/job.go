package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// JobConfig describes a job of the harness.
type JobConfig struct {
	Kind Kind
	// Name is the job's and begins its topics' names.
	Name string
	// Interval between checkpoints; default 150ms.
	Interval time.Duration
	// Memory is the budget of keyed state, "" for the default.
	Memory string
	// Prefix of transactional ids, "" for the default.
	Prefix string
	// UID of the keyed operator, or of the filter; "" for its name.
	UID string
	// Delete has a cancelled job delete its checkpoints.
	Delete bool
	// Work makes the count job spend time on each record: so many times it repeats a
	// field that is thrown away.
	Work int
	// Fetch is how much of a partition is fetched at once, "" for the default.
	Fetch string
	// Into has a job of kind count write tables instead of topics.
	Into Strategy
	// SinkTopic is where output goes instead of the usual place.
	SinkTopic string
	// Wide makes the keys of keyed state so many times as long as those of records,
	// so that little input gives much state; 0 leaves them as they are.
	Wide int
}

// Job is a pipeline file and its data folder.
type Job struct {
	JobConfig
	broker *Broker
	Dir    string // data folder
	File   string
	dsn    string // of its tables
	starts int
}

// NewJob writes the pipeline file into a folder, below which all of the job lies.
func NewJob(b *Broker, dir string, c JobConfig) (*Job, error) {
	if c.Interval == 0 {
		c.Interval = 150 * time.Millisecond
	}
	j := &Job{JobConfig: c, broker: b, Dir: filepath.Join(dir, "data"), File: filepath.Join(dir, "pipeline.yaml")}
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		return nil, err
	}
	return j, os.WriteFile(j.File, []byte(j.text()), 0o600)
}

// In is the topic the job reads.
func (c *JobConfig) In() string { return c.Name + ".in" }

// Outs are the topics it writes.
func (c *JobConfig) Outs() []string {
	if c.Into != "" {
		return nil
	}
	out := c.Name + ".out"
	if c.SinkTopic != "" {
		out = c.SinkTopic
	}
	if c.Kind == Fan {
		return []string{out, out + ".kept"}
	}
	return []string{out}
}

func (j *Job) text() string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("version: 1\nname: %s\nparallelism: 2\nmax_parallelism: 16", j.Name)
	onCancel := "retain"
	if j.Delete {
		onCancel = "delete"
	}
	line("checkpoint: { interval: %v, min_pause: 10ms, timeout: 20s, tolerable_failures: 3, retain: 3, on_cancel: %s }", j.Interval, onCancel)
	line("restart: { initial: 100ms, max: 1s }\nhttp: 127.0.0.1:0\ntelemetry: { log: { format: json } }")
	if j.Memory != "" {
		line("state: { memory: %s }", j.Memory)
	}
	line("connections:\n  main:\n    type: kafka\n    seed_brokers: [%q]", j.broker.addr)
	if j.broker.password != "" {
		line("    sasl: { mechanism: PLAIN, username: %s, password: \"${%s}\" }", user, passwordEnv)
	}
	if j.Into != "" {
		line("  db: { type: postgres, dsn: \"${%s}\" }", dsnEnv)
	}
	fetch := ""
	if j.Fetch != "" {
		fetch = ", fetch: { max_partition_bytes: " + j.Fetch + " }"
	}
	line("sources:\n  in: { type: kafka, connection: main, topics: [%s], consumer_group: %s, decode: %s%s }", j.In(), j.Name, j.decode(), fetch)
	s.WriteString(j.transforms())
	line("sinks:")
	if j.Into != "" {
		s.WriteString(j.tables())
	}
	for i, topic := range j.Outs() {
		line("  out%d: { type: kafka, connection: main, inputs: [%s], topic: %s%s }", i, j.lasts()[i], topic, j.sinkKeys(i))
	}
	return s.String()
}

func (j *Job) decode() string {
	if j.Kind == Pass {
		return "raw"
	}
	return "json"
}

func (j *Job) transforms() string {
	uid := ""
	if j.UID != "" {
		uid = "uid: " + j.UID + ", "
	}
	switch {
	case j.Into != "": // the key of the sink must be that of the aggregate
		return `transforms:
  per_key: { type: aggregate, inputs: [in], key: this.k, emit: on_change, aggregates: { c: count, sum: { op: sum, of: this.n } } }
`
	case j.Kind == Count:
		return fmt.Sprintf(`transforms:
  busy: { type: filter, inputs: [in], where: 'len(repeat(this.x, %d)) >= 0' }
  per_key:
    { %stype: aggregate, inputs: [busy], key: %s, emit: on_change, aggregates: { c: count, sum: { op: sum, of: this.n } } }
  short: { type: map, inputs: [per_key], map: { key: 'split(this.key, "|")[0]', c: this.c, sum: this.sum } }
`, j.Work, uid, j.stateKey())
	case j.Kind == Fan:
		return `transforms:
  kept: { ` + uid + `type: filter, inputs: [in], where: this.s % 3 != 0 }
  shaped: { type: map, inputs: [kept], map: { p: this.p, s: this.s, tags: this.tags } }
  rows: { type: flat_map, inputs: [shaped], each: this.tags, map: { p: this.p, s: this.s, tag: it } }
`
	}
	return ""
}

// stateKey is the expression that the count job keeps its state under.
func (j *Job) stateKey() string {
	if j.Wide == 0 {
		return "this.k"
	}
	return fmt.Sprintf(`'repeat(this.k + "|", %d)'`, j.Wide)
}

// lasts are the components that the sinks take from.
func (j *Job) lasts() []string {
	switch j.Kind {
	case Count:
		return []string{"short"}
	case Fan:
		return []string{"rows", "kept"}
	}
	return []string{"in"}
}

func (j *Job) sinkKeys(i int) (s string) {
	if j.Kind == Count {
		s = ", key: this.key"
	}
	if j.Prefix != "" {
		s += ", transactional_id_prefix: " + j.Prefix
	}
	return s
}

// topics are all of the job's, with their numbers of partitions.
func (j *Job) topics(outPartitions int) map[string]int {
	m := map[string]int{j.In(): partitions}
	for _, t := range j.Outs() {
		m[t] = outPartitions
	}
	return m
}
