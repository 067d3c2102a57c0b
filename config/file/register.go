package file

import "etl/config"

// Options are what a program adds to the file.
type Options struct {
	// AcceptForeign lets a job without stored checkpoints start beside what an earlier
	// life of the same name has committed.
	AcceptForeign bool
}

// Register adds the component type file to r.
func Register(r *config.Registry, o Options) {
	config.Register(r, config.Sinks, "file", "writes part files", o.sink)
}
