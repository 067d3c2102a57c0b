package postgres

import "etl/config"

// Options are what a program adds to the file.
type Options struct {
	// AcceptForeign lets a job without stored checkpoints start beside the markers of
	// an earlier life of the same name.
	AcceptForeign bool
}

// Register adds the component type postgres to r.
func Register(r *config.Registry, o Options) {
	config.RegisterConnection(r, "postgres", "a PostgreSQL database", checkConnection)
	config.Register(r, config.Sinks, "postgres", "writes a table", o.sink)
}
