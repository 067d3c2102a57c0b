package kafka

import (
	"maps"

	"etl/sink/kafkatxn"
)

// Points are all fault points of the Kafka sink, each with the number under which the
// torture counts it (docs/torture.md).
var Points = func() map[string]string {
	m := map[string]string{
		"kafka.init.before":  "K44b", // before a slot is initialised
		"kafka.init.after":   "K44c", // initialised, nothing written
		"kafka.begin":        "K44",  // the next transaction begins while the last one may be committing
		"kafka.flush.before": "K15",  // rows in flight
		"kafka.flush.after":  "K15b", // every row acknowledged
		"kafka.prepared":     "K18b", // marker written, committable not handed over
	}
	maps.Copy(m, kafkatxn.Points)
	return m
}()
