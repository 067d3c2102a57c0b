package telemetry

import (
	"context"
	"maps"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"etl/stream"
)

// KafkaClient is what the Kafka clients of a component have done with one broker since
// they were made.
type KafkaClient struct {
	Broker int32 // below 0 for those that are known by address only

	Connects, ConnectErrors, Disconnects                   int64
	WriteBytes, WriteErrors, ReadBytes, ReadErrors         int64
	ProduceRecords, ProduceBytes, FetchRecords, FetchBytes int64
	Throttled                                              time.Duration
}

// ObserveKafka has the numbers of a component's clients published. f may be called at
// any time, from any goroutine.
func (t *Telemetry) ObserveKafka(component stream.UID, f func() []KafkaClient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients[component] = f
}

// kafkaCounters are the metrics of KafkaClient.
var kafkaCounters = []struct {
	name, unit, text string
	get              func(*KafkaClient) int64
}{
	{"connects", "{connection}", "connections opened", func(k *KafkaClient) int64 { return k.Connects }},
	{"connect_errors", "{error}", "connections that could not be opened", func(k *KafkaClient) int64 { return k.ConnectErrors }},
	{"disconnects", "{connection}", "connections that ended", func(k *KafkaClient) int64 { return k.Disconnects }},
	{"write_bytes", "By", "bytes sent", func(k *KafkaClient) int64 { return k.WriteBytes }},
	{"write_errors", "{error}", "requests that could not be sent", func(k *KafkaClient) int64 { return k.WriteErrors }},
	{"read_bytes", "By", "bytes received", func(k *KafkaClient) int64 { return k.ReadBytes }},
	{"read_errors", "{error}", "answers that could not be received", func(k *KafkaClient) int64 { return k.ReadErrors }},
	{"produce_records", "{record}", "records sent, those of aborted transactions included", func(k *KafkaClient) int64 { return k.ProduceRecords }},
	{"produce_bytes", "By", "bytes of records sent, before compression", func(k *KafkaClient) int64 { return k.ProduceBytes }},
	{"fetch_records", "{record}", "records received, those of aborted transactions included", func(k *KafkaClient) int64 { return k.FetchRecords }},
	{"fetch_bytes", "By", "bytes of records received, after decompression", func(k *KafkaClient) int64 { return k.FetchBytes }},
}

// registerKafka makes the instruments and the callback that reads the clients.
func (t *Telemetry) registerKafka(m metric.Meter) error {
	mk := &maker{Meter: m}
	var all []metric.Observable
	counters := make([]metric.Int64ObservableCounter, len(kafkaCounters))
	for i, k := range kafkaCounters {
		c, err := m.Int64ObservableCounter("etl.kafka_client."+k.name, metric.WithUnit(k.unit), metric.WithDescription(k.text))
		mk.note(err)
		counters[i], all = c, append(all, c)
	}
	throttled, err := m.Float64ObservableCounter("etl.kafka_client.throttle", metric.WithUnit("s"), metric.WithDescription("time for which brokers had clients wait, for their quota"))
	mk.note(err)
	if mk.err != nil {
		return mk.err
	}
	_, err = m.RegisterCallback(func(_ context.Context, ob metric.Observer) error {
		for uid, f := range t.kafkaFuncs() {
			for _, k := range f() {
				broker := "seed"
				if k.Broker >= 0 {
					broker = strconv.Itoa(int(k.Broker))
				}
				attrs := t.metrics.attrs(attribute.String("component", string(uid)), attribute.String("broker", broker))
				for i, c := range counters {
					ob.ObserveInt64(c, kafkaCounters[i].get(&k), attrs)
				}
				ob.ObserveFloat64(throttled, k.Throttled.Seconds(), attrs)
			}
		}
		return nil
	}, append(all, throttled)...)
	return err
}

// kafkaFuncs are the functions of ObserveKafka, to be called without the lock.
func (t *Telemetry) kafkaFuncs() map[stream.UID]func() []KafkaClient {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.clients)
}
