// Package kafkatest gives a test a real Apache Kafka broker: one node in KRaft
// mode that can be killed, frozen, cut off, and started again on the same data.
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
//
//	func TestX(t *testing.T) {
//		b := kafkatest.Shared(t)                    // one for this test program
//		b := kafkatest.Start(t, kafkatest.Config{}) // one for this test, to be mistreated
//		topic := b.Topic(t, 3)
//		cl := b.Client(t, kgo.DefaultProduceTopic(topic))
//		b.Kill(t)
//		b.Restart(t)
//	}
//
// Programs that are not tests (the kill harness, the benchmarks) use [Run], which
// returns errors; everything with a testing.TB is a thin layer over it.
//
// Where the broker comes from, first that works: ETL_TEST_KAFKA=host:port[,...]
// (somebody else's, never killed), a container on the Docker engine that answers
// (image ETL_TEST_KAFKA_IMAGE), a Java process. ETL_TEST_VIA=container|process
// asks for one of the last two. scripts/setup-test-services.sh installs what they
// need. Without any, the test is skipped aloud, or fails under ETL_REQUIRE_REAL=1.
//
// The embedded kafka-entrypoint.sh is the whole difference between this package
// and the broker's jars; it runs in any image that has Java and
// /opt/kafka/libs, the official one included.
package kafkatest
