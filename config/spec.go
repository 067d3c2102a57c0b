package config

import (
	"etl/checkpoint"
	"etl/pipeline"
)

// Spec is the pipeline file but for its components, with defaults filled in.
type Spec struct {
	Version        int        `yaml:"version" default:"1" min:"1" doc:"version of the file's format"`
	Name           string     `yaml:"name" required:"true" doc:"the pipeline's identity: its checkpoints, its state and its transactions are kept under it. Another name is another pipeline."`
	Parallelism    int        `yaml:"parallelism" default:"1" min:"1" max:"32768" doc:"subtasks of every component that does not say otherwise"`
	MaxParallelism int        `yaml:"max_parallelism" default:"128" min:"1" max:"32768" doc:"number of key groups, the most that parallelism can ever be; fixed by the first checkpoint"`
	Checkpoint     Checkpoint `yaml:"checkpoint" doc:"when checkpoints are taken and where they are kept"`
	State          State      `yaml:"state" doc:"where keyed state lives while the job runs"`
	Restart        Restart    `yaml:"restart" doc:"what follows a failure that a restart can heal"`
	HTTP           HTTP       `yaml:"http" doc:"the address of metrics and health checks"`
	Telemetry      Telemetry  `yaml:"telemetry" doc:"logs; metrics and traces follow the standard OTEL_ variables"`
	DeadLetter     DeadLetter `yaml:"dead_letter" doc:"where dead letters go"`
	_              struct{}   `reserved:"tests"`
}

// DeadLetter is the section of that name.
type DeadLetter struct {
	Sink string   `yaml:"sink" word:"true" doc:"the sink of the dead letters of all components with on_error: dead_letter that name no other one"`
	_    struct{} `reserved:"max_rate"`
}

// Checkpoint is the section of that name.
type Checkpoint struct {
	Mode              string    `yaml:"mode" default:"exactly_once" oneof:"exactly_once|at_least_once|none" doc:"the guarantee: at_least_once does not align barriers and may write a record twice after a failure; none takes no checkpoints, so that a failure may lose records"`
	Interval          Duration  `yaml:"interval" default:"10s" doc:"time between checkpoints: transactional output becomes visible once in it"`
	MinPause          *Duration `yaml:"min_pause" doc:"rest after a checkpoint ended; default 1s, and 0 when max_concurrent is more than 1"`
	Timeout           Duration  `yaml:"timeout" default:"2m" doc:"when a checkpoint is given up"`
	MaxConcurrent     int       `yaml:"max_concurrent" default:"1" min:"1" max:"16" doc:"checkpoints under way at once; more than 1 excludes min_pause"`
	TolerableFailures int       `yaml:"tolerable_failures" default:"3" min:"0" max:"1000" doc:"consecutive checkpoints that may fail before the attempt ends"`
	Retain            int       `yaml:"retain" default:"3" min:"2" max:"10000" doc:"completed checkpoints that are kept, at least 2"`
	OnCancel          string    `yaml:"on_cancel" default:"retain" oneof:"retain|delete" doc:"what becomes of the checkpoints when the job is cancelled"`
	Snapshot          string    `yaml:"snapshot" default:"incremental" oneof:"incremental|full" doc:"incremental writes what changed; full gives each checkpoint a base of its own"`
	Storage           string    `yaml:"storage" doc:"where checkpoints are kept: file:///path, below which the job gets a folder of its name, or memory: for tests; default below the data directory"`
	Alignment         string    `yaml:"alignment" default:"aligned" oneof:"aligned" doc:"how barriers pass slow inputs"`
	_                 struct{}  `reserved:"aligned_timeout interval_during_backlog"`
}

// State is the section of that name.
type State struct {
	Dir     string `yaml:"dir" doc:"folder of the local base; a folder of the job's name is made in it; default below the data directory"`
	Backend string `yaml:"backend" default:"pebble" doc:"pebble keeps state larger than memory on the local disk; memory keeps all of it in memory"`
	Memory  Size   `yaml:"memory" default:"256MiB" doc:"memory for keyed state, all tasks of the process together"`
}

// Restart is the section of that name.
type Restart struct {
	Strategy   string   `yaml:"strategy" word:"true" default:"exponential" oneof:"exponential|none" doc:"exponential doubles the pause after every failure; none ends at the first one"`
	Initial    Duration `yaml:"initial" default:"1s" doc:"the first pause"`
	Max        Duration `yaml:"max" default:"2m" doc:"the longest pause"`
	ResetAfter Duration `yaml:"reset_after" default:"10m" doc:"an attempt that ran this long makes the next pause the first one again"`
	Attempts   int      `yaml:"attempts" default:"0" min:"0" doc:"restarts after which the job fails; 0 for no end"`
}

// HTTP is the section of that name.
type HTTP struct {
	Address string `yaml:"address" word:"true" default:"127.0.0.1:8150" doc:"host:port of /metrics, /livez and /readyz, on a loopback address; none turns it off"`
}

// Telemetry is the section of that name.
type Telemetry struct {
	Log Log `yaml:"log" doc:"how events are logged, to standard error"`
}

// Log says how events are logged.
type Log struct {
	Level  string `yaml:"level" default:"info" oneof:"debug|info|warn|error" doc:"the least important events that are logged"`
	Format string `yaml:"format" default:"auto" oneof:"auto|text|json" doc:"auto is text on a terminal and JSON elsewhere"`
}

// policy returns the section as the engine takes it. Whoever wrote 0 means 0, not
// the engine's default.
func (c *Checkpoint) policy() checkpoint.Policy {
	p := checkpoint.Policy{Mode: checkpoint.Mode(c.Mode), Interval: c.Interval.Std(), Timeout: c.Timeout.Std(),
		MaxConcurrent: c.MaxConcurrent, TolerableFailures: c.TolerableFailures, Retain: c.Retain}
	if c.TolerableFailures == 0 {
		p.TolerableFailures = checkpoint.NoFailures
	}
	if c.MinPause != nil {
		p.MinPause = c.MinPause.Std()
		if p.MinPause == 0 {
			p.MinPause = checkpoint.NoPause
		}
	}
	return p.WithDefaults()
}

// strategy returns the section as the engine takes it.
func (r *Restart) strategy() pipeline.RestartStrategy {
	s := pipeline.RestartStrategy{Initial: r.Initial.Std(), Max: r.Max.Std(), ResetAfter: r.ResetAfter.Std(), Attempts: r.Attempts}
	if r.Strategy == "none" {
		s.Attempts = pipeline.NoRestart
	}
	return s
}
