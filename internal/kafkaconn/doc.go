// Package kafkaconn is the one place that turns a job's description of a Kafka
// cluster into clients, and a cluster's answers into errors an operator can act
// on. It also carries fetched records from the source to a sink that passes them
// through.
//
// # Clients
//
// [Config] describes a cluster: brokers, TLS, SASL, client id. [Config.Options]
// gives the kgo options that every client of the job shares; the components add
// their own (consumer, transactional id, pools). The dialer is injected, so that a
// whole job runs on an in-memory network inside testing/synctest.
//
// Credentials never travel in the clear: PLAIN and SCRAM without TLS are refused
// unless every seed broker is a loopback address. TLS is verified and at least 1.2.
//
// # Errors
//
// [Explain] turns what a client returns into a stream.Error with a stable code
// (kafka.unreachable, kafka.tls, kafka.sasl, kafka.acl, ...), the thing it happened
// to, and what to do. It never hides the cause: errors.Is still finds the kerr code.
//
// # Ownership of fetched records
//
// With the [Records] pool a kgo client decodes records into pooled slices; a slice
// goes back when each of its records was recycled. A [Fetched] is the run of records
// that one batch of the engine has as its origin. Its reader owns it; one sink may
// claim it and take records out, one by one, to produce them as they are, and
// recycles each when it is acknowledged. What nobody took is recycled at the batch's
// last release. Only the record structs are pooled: the bytes of keys and values are
// left to the collector, because a record may be recycled while other batches still
// point to its bytes.
package kafkaconn
