package redis

import "etl/config"

// Register adds the component type redis to r.
func Register(r *config.Registry) {
	config.RegisterConnection(r, "redis", "a Redis server", checkConnection)
	config.Register(r, config.Sinks, "redis", "writes the value of each key", newSink)
}
