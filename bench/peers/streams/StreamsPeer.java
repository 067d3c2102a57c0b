import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.Stores;

/** The benchmark's work on Kafka Streams: arguments broker, work (copy or count), store (memory or rocksdb), folder, records. */
public class StreamsPeer {
    private static final LongAdder written = new LongAdder();

    private static Properties settings(String broker, String folder) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-peer-" + System.nanoTime());
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "1000");
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        p.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 262144);
        p.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        p.put(StreamsConfig.producerPrefix(ProducerConfig.BUFFER_MEMORY_CONFIG), 134217728L);
        p.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 5000);
        return p;
    }

    private static void copy(StreamsBuilder b) {
        b.stream("in", Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).peek((k, v) -> written.increment())
            .to("out", Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    }

    private static void count(StreamsBuilder b, String store) {
        KeyValueBytesStoreSupplier s = store.equals("memory") ? Stores.inMemoryKeyValueStore("count") : Stores.persistentKeyValueStore("count");
        KStream<String, byte[]> in = b.stream("in", Consumed.with(Serdes.String(), Serdes.ByteArray()));
        in.groupByKey()
            .aggregate(() -> 0L, (key, value, n) -> n + 1,
                Materialized.<String, Long>as(s).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled())
            .toStream()
            .mapValues(n -> {
                written.increment();
                return Long.toString(n).getBytes(StandardCharsets.UTF_8);
            })
            .to("out", Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    public static void main(String[] args) throws Exception {
        String work = args[1], store = args[2];
        StreamsBuilder b = new StreamsBuilder();
        if (work.equals("count")) {
            count(b, store);
        } else {
            copy(b);
        }
        KafkaStreams streams = new KafkaStreams(b.build(), settings(args[0], args[3]));
        Steady steady = new Steady("streams-" + work + "-" + store, written, Long.parseLong(args[4]));
        streams.start();
        steady.print();
        streams.close(Duration.ofSeconds(20));
        System.exit(0);
    }
}
