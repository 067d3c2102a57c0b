package main

import (
	"etl/internal/kafkaconn"
	"etl/internal/telemetry"
	sourcekafka "etl/source/kafka"
	"etl/stream"
)

// observed is what components say of themselves, on its way to the telemetry: they are
// described when the file is loaded, before the telemetry is there.
type observed struct {
	t       *telemetry.Telemetry
	clients map[stream.UID]*kafkaconn.Traffic
}

// opened passes on what a reader says about its lag.
func (o *observed) opened(task stream.TaskID, lag func() []sourcekafka.Lag) {
	o.t.ObserveLag(task, func() (out []telemetry.Lag) {
		for _, l := range lag() {
			out = append(out, telemetry.Lag(l))
		}
		return out
	})
}

// traffic returns what counts the traffic of a component.
func (o *observed) traffic(component stream.UID) *kafkaconn.Traffic {
	if o.clients[component] == nil {
		o.clients[component] = &kafkaconn.Traffic{}
	}
	return o.clients[component]
}

// to has everything published by t.
func (o *observed) to(t *telemetry.Telemetry) {
	o.t = t
	for component, traffic := range o.clients {
		t.ObserveKafka(component, func() (out []telemetry.KafkaClient) {
			for _, b := range traffic.Brokers() {
				out = append(out, telemetry.KafkaClient(b))
			}
			return out
		})
	}
}
