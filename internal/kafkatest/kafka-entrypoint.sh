#!/bin/sh
# One Apache Kafka node in KRaft mode, broker and controller in one JVM, as a
# plain process or as the entry point of a container. By hand:
#
#   KAFKA_DIR=/tmp/k kafka-entrypoint.sh        then connect to 127.0.0.1:9092
#
#   KAFKA_DIR      data, settings, temporary files     default /tmp/etl-kafka
#   KAFKA_LIBS     folder of the broker's jars         default /opt/kafka/libs
#   KAFKA_BAKED    what "bake" made; may be absent     default /opt/kafka/baked
#   KAFKA_HEAP     default 512m
#   KAFKA_JVM      more java options; the default starts fast and compiles little
#   KAFKA_FEATURES feature levels to format with, e.g. transaction.version=1
#   KAFKA_LOG      log level, default warn
#   KAFKA_EXTRA    further settings, may be absent     default $KAFKA_DIR/extra.properties
#
# The further settings are appended to those below; of a key given twice the
# broker takes the last. Data outlives a kill and a restart.
#
# "kafka-entrypoint.sh bake" runs a broker once and leaves in KAFKA_BAKED a
# class-data archive and a formatted data folder: about a third off every start.
set -eu
dir=${KAFKA_DIR:-/tmp/etl-kafka}
libs=${KAFKA_LIBS:-/opt/kafka/libs}
baked=${KAFKA_BAKED:-/opt/kafka/baked}
extra=${KAFKA_EXTRA:-$dir/extra.properties}
cluster_id=ZXRsLXRlc3QtY2x1c3Rlcg

write_settings() {
  cat >"$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://127.0.0.1:9092
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
# A broker that was killed is refused as a duplicate of itself until its former
# session has run out (9 s by default), and asks again only every 2 s.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=300
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=16777216
P
  [ ! -f "$extra" ] || cat "$extra" >>"$dir/server.properties"
}

# The class path in one fixed order: the class archive is valid for that order only.
class_path() {
  printf '%s:' "$libs"/*.jar
}

format() {
  rm -rf "$dir/data" # a half-made one, from a kill while formatting
  if [ -z "${KAFKA_FEATURES:-}" ] && [ -f "$baked/meta.properties" ]; then
    # meta.properties last: it is what says that the folder is whole
    mkdir "$dir/data"
    cp "$baked/bootstrap.checkpoint" "$dir/data/"
    cp "$baked/meta.properties" "$dir/data/"
    return
  fi
  set --
  for feature in ${KAFKA_FEATURES:-}; do set -- "$@" --feature "$feature"; done
  # shellcheck disable=SC2086 # $fast is a list
  java -Xmx128m $fast -cp "$(class_path)" kafka.tools.StorageTool format \
    -t "$cluster_id" -c "$dir/server.properties" "$@" >"$dir/format.log" 2>&1 || {
    cat "$dir/format.log" >&2
    exit 1
  }
}

# Waits for the broker's own word here, and only here: there is no client yet.
bake() {
  export KAFKA_JVM="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit=$baked/kafka.jsa" KAFKA_LOG=info
  mkdir -p "$dir" "$baked"
  "$0" >"$dir/bake.log" 2>&1 &
  pid=$!
  tries=0
  until grep -q 'Kafka Server started' "$dir/bake.log"; do
    tries=$((tries + 1))
    if [ $tries -gt 1200 ] || ! kill -0 $pid 2>/dev/null; then
      tail -20 "$dir/bake.log" >&2
      exit 1
    fi
    sleep 0.1
  done
  kill -TERM $pid
  wait $pid || true # 143
  [ -s "$baked/kafka.jsa" ] || {
    tail -20 "$dir/bake.log" >&2
    exit 1
  }
  cp "$dir/data/meta.properties" "$dir/data/bootstrap.checkpoint" "$baked/"
  rm -rf "$dir"
}

if [ "${1:-}" = bake ]; then
  bake
  exit 0
fi
# Native libraries unpack into the temporary folder, and a kill leaves them there.
mkdir -p "$dir/tmp"
fast=${KAFKA_JVM:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}
fast="$fast -Djava.awt.headless=true -Djava.io.tmpdir=$dir/tmp -XX:-UsePerfData"
fast="$fast -Dorg.slf4j.simpleLogger.defaultLogLevel=${KAFKA_LOG:-warn} -Dorg.slf4j.simpleLogger.showDateTime=true"
[ ! -f "$baked/kafka.jsa" ] || fast="$fast -Xshare:auto -XX:SharedArchiveFile=$baked/kafka.jsa"
write_settings
[ -f "$dir/data/meta.properties" ] || format
heap=${KAFKA_HEAP:-512m}
# shellcheck disable=SC2086
exec java -Xms"$heap" -Xmx"$heap" $fast -cp "$(class_path)" kafka.Kafka "$dir/server.properties"
