package kafka

import (
	"etl/config"
	"etl/internal/kafkaconn"
	"etl/source/kafka"
	"etl/stream"
)

// Options are what a program adds to the file.
type Options struct {
	// AcceptForeign lets a job without stored checkpoints start beside the markers of
	// an earlier life of the same name.
	AcceptForeign bool
	// OnOpen is told of every reader that opens, with a function that says how far
	// behind it is; OnStall of partitions that make no progress. Both may be nil.
	OnOpen  func(task stream.TaskID, lag func() []kafka.Lag)
	OnStall func(task stream.TaskID, s kafka.Stall)
	// Traffic returns what counts the traffic of a component's clients; nil for nobody.
	Traffic func(component stream.UID) *kafkaconn.Traffic
}

// conn returns a connection as the clients of a component take it.
func (o Options) conn(c *Connection, component stream.UID) kafkaconn.Config {
	out := c.Conn()
	if o.Traffic != nil {
		out.Traffic = o.Traffic(component)
	}
	return out
}

// Register adds the component type kafka to r.
func Register(r *config.Registry, o Options) {
	config.RegisterConnection(r, "kafka", "a Kafka cluster", checkConnection)
	config.Register(r, config.Sources, "kafka", "reads topics", o.source)
	config.Register(r, config.Sinks, "kafka", "writes a topic", o.sink)
}
