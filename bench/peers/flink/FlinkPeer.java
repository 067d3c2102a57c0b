import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The benchmark's work on Apache Flink: arguments broker, work (copy or count), backend (hashmap or rocksdb), folder, records. */
public class FlinkPeer {
    private static final LongAdder written = new LongAdder();

    /** A record as Flink passes it on: bytes, as the engine under test does. */
    public static class Pair {
        public byte[] key;
        public byte[] value;

        public Pair() {}

        Pair(byte[] key, byte[] value) {
            this.key = key;
            this.value = value;
        }
    }

    private static class Read implements KafkaRecordDeserializationSchema<Pair> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<Pair> out) {
            out.collect(new Pair(r.key(), r.value()));
        }

        @Override
        public TypeInformation<Pair> getProducedType() {
            return Types.POJO(Pair.class);
        }
    }

    private static class Write implements KafkaRecordSerializationSchema<Pair> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(Pair p, KafkaSinkContext context, Long time) {
            written.increment();
            return new ProducerRecord<>("out", p.key, p.value);
        }
    }

    private static class Count extends KeyedProcessFunction<String, Pair, Pair> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Pair p, Context context, Collector<Pair> out) throws Exception {
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            out.collect(new Pair(p.key, Long.toString(now).getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static StreamExecutionEnvironment environment(String backend, String folder) {
        Configuration c = new Configuration();
        c.set(StateBackendOptions.STATE_BACKEND, backend);
        c.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        c.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + folder);
        c.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        c.set(PipelineOptions.OBJECT_REUSE, true);
        c.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(512));
        c.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(128));
        c.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(128));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, c);
        env.enableCheckpointing(1000, CheckpointingMode.EXACTLY_ONCE);
        return env;
    }

    private static KafkaSink<Pair> sink(String broker) {
        Properties p = new Properties();
        p.put("transaction.timeout.ms", "600000");
        p.put("linger.ms", "5");
        p.put("batch.size", "262144");
        p.put("buffer.memory", "134217728");
        return KafkaSink.<Pair>builder().setBootstrapServers(broker).setRecordSerializer(new Write()).setKafkaProducerConfig(p)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).setTransactionalIdPrefix("flink-peer-" + System.nanoTime()).build();
    }

    public static void main(String[] args) throws Exception {
        String broker = args[0], work = args[1], backend = args[2];
        StreamExecutionEnvironment env = environment(backend, args[3]);
        KafkaSource<Pair> source = KafkaSource.<Pair>builder().setBootstrapServers(broker).setTopics("in")
            .setStartingOffsets(OffsetsInitializer.earliest()).setBounded(OffsetsInitializer.latest()).setDeserializer(new Read()).build();
        DataStream<Pair> in = env.fromSource(source, WatermarkStrategy.noWatermarks(), "in");
        if (work.equals("count")) {
            in = in.keyBy((Pair p) -> new String(p.key, StandardCharsets.UTF_8), Types.STRING).process(new Count(), Types.POJO(Pair.class));
        }
        in.sinkTo(sink(broker));
        Steady steady = new Steady("flink-" + work + "-" + backend, written, Long.parseLong(args[4]));
        env.execute();
        steady.print();
        System.exit(0);
    }
}
