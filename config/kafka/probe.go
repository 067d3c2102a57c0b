package kafka

import (
	"context"

	"etl/config"
	"etl/internal/kafkaconn"
	source "etl/source/kafka"
	"etl/stream"
)

// probe tries the rights of needs, by name; path is the key that names the topics.
func probe(conn kafkaconn.Config, path string, needs []kafkaconn.Access) func(context.Context, stream.World) []config.Found {
	return func(ctx context.Context, w stream.World) []config.Found {
		if conn.Dial == nil {
			conn.Dial = w.Dial
		}
		cl, err := conn.NewClient()
		if err != nil {
			return []config.Found{{Err: err}}
		}
		defer cl.Close()
		lacking, err := kafkaconn.Missing(ctx, cl, needs...)
		if err != nil {
			return []config.Found{{Err: err}}
		}
		var found []config.Found
		for _, err := range lacking {
			found = append(found, config.Found{Path: path, Err: err})
		}
		return found
	}
}

// readRights are what a source needs.
func readRights(cfg source.Config) (needs []kafkaconn.Access) {
	for _, t := range cfg.Topics {
		for _, op := range []string{"DESCRIBE", "READ"} {
			needs = append(needs, kafkaconn.Access{Kind: kafkaconn.Topic, Name: t, Operation: op})
		}
	}
	return needs
}

// writeRights are what a sink needs of a topic; one with transactions also reads it,
// for its markers are offsets of it.
func writeRights(topic string, transactional bool) (needs []kafkaconn.Access) {
	ops := []string{"DESCRIBE", "WRITE"}
	if transactional {
		ops = append(ops, "READ")
	}
	for _, op := range ops {
		needs = append(needs, kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: op})
	}
	return needs
}
