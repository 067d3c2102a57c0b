#!/usr/bin/env bash
# setup-test-services.sh : installs what the tests on real servers need.
#
# From a Debian machine that has only Go, to a broker and a database that start
# in seconds. It says what it installs, may be repeated at any time, and takes
# about a second when everything is there. Uses Debian's packages and Maven
# Central, no image registry.
#
#   ETL_SETUP_DOCKER=0   leave Docker alone; the container tiers are then skipped
#   ETL_TEST_CACHE       where downloads and built things go (scripts/common.sh)
#
# Without root it installs no package; it then says which are missing and which
# tiers cannot run. What it could prepare, it has prepared.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$repo/scripts
missing=0
say() { printf 'setup %4ss  %s\n' "$SECONDS" "$*"; }
lack() {
  missing=$((missing + 1))
  printf 'setup: MISSING %s -> skipped: %s\n' "$1" "$2" >&2
}

have_java() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ]
}
have_jdk() { have_java && command -v javac >/dev/null; }
have_libs() { [ -e "$kafka_libs/.complete" ]; }
have_maven() { command -v mvn >/dev/null; }
have_postgres() { postgres_bin >/dev/null; }
have_redis() { command -v redis-server >/dev/null; }
have_pgbouncer() { command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; }
have_docker() { [ "${ETL_SETUP_DOCKER:-1}" = 0 ] || find_engine || command -v dockerd >/dev/null; }

# install PACKAGE... : no package may start a daemon, and PostgreSQL makes no cluster of its own.
install_packages() {
  local policy=/usr/sbin/policy-rc.d conf=/etc/postgresql-common/createcluster.conf
  say "installing Debian packages: $*"
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  mkdir -p "$(dirname $conf)"
  [ -e $conf ] || echo 'create_main_cluster = false' >$conf
  export DEBIAN_FRONTEND=noninteractive
  again apt-get -o DPkg::Lock::Timeout=300 -qq update
  again apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold -qq -y install \
    --no-install-recommends "$@" >"$cache/apt.log" 2>&1 || {
    tail -20 "$cache/apt.log" >&2
    die "apt-get install failed"
  }
}

packages() {
  local want=()
  have_jdk || want+=(openjdk-17-jdk-headless)
  have_maven || want+=(maven)
  have_postgres || want+=(postgresql)
  have_redis || want+=(redis-server)
  have_pgbouncer || want+=(pgbouncer)
  have_docker || want+=(docker.io)
  if [ ${#want[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    install_packages "${want[@]}"
  fi
  say "packages: ${want[*]:-all there}"
}

jars() {
  have_libs || {
    have_maven && have_java || return 0
    say "fetching the Kafka $kafka_version jars with Maven"
    rm -rf "$kafka_libs.new"
    again mvn -q -B -f "$here/kafka-pom.xml" -Dkafka.version="$kafka_version" \
      org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$kafka_libs.new"
    touch "$kafka_libs.new/.complete"
    rm -rf "$kafka_libs"
    mv "$kafka_libs.new" "$kafka_libs"
  }
  say "Kafka jars: $kafka_libs"
}

free_port() { # below the range of outgoing connections
  local port
  while :; do
    port=$((15000 + RANDOM % 15000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo $port
}

# The class archive is tied to the Java runtime and to the jars' names and times.
bake() {
  local inputs dir=$cache/bake.$$ port control
  inputs=$({ cat "$kafka_entrypoint" && java -version && ls -l --time-style=+%s "$kafka_libs"; } 2>&1 | sha256sum | cut -c1-16)
  if [ "$(cat "$kafka_baked/inputs" 2>/dev/null)" != "$inputs" ]; then
    rm -rf "$kafka_baked.new"
    mkdir -p "$dir"
    port=$(free_port) control=$(free_port)
    printf '%s\n' "listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$control" \
      "advertised.listeners=PLAINTEXT://127.0.0.1:$port" "controller.quorum.voters=1@127.0.0.1:$control" >"$dir/extra.properties"
    if KAFKA_DIR=$dir KAFKA_LIBS=$kafka_libs KAFKA_BAKED=$kafka_baked.new "$kafka_entrypoint" bake; then
      echo "$inputs" >"$kafka_baked.new/inputs"
      rm -rf "$kafka_baked" # tests of another checkout may run: replace it in one step
      mv "$kafka_baked.new" "$kafka_baked"
    else
      rm -rf "$kafka_baked.new" "$dir"
      say "no class archive: brokers will start more slowly"
    fi
  fi
  say "broker class archive: $kafka_baked"
}

docker_tier() {
  if [ "${ETL_SETUP_DOCKER:-1}" = 0 ]; then
    lack "Docker (ETL_SETUP_DOCKER=0)" "the container tiers"
    return
  fi
  if ! find_engine; then
    if [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then
      lack "a Docker engine (needs root and docker.io)" "the container tiers"
      return
    fi
    local started
    if started=$("$here/dockerd.sh" start); then
      say "$started"
    fi
    if ! find_engine; then
      lack "a Docker engine (dockerd does not start on this machine, see above)" "the container tiers"
      return
    fi
  fi
  "$here/build-test-images.sh" | while read -r line; do say "image $line"; done
}

report() {
  have_java || lack "Java 17 (openjdk-17-jdk-headless)" "real Kafka as a process"
  { have_jdk && have_maven; } || lack "javac or mvn (openjdk-17-jdk-headless, maven)" "the peers of the benchmarks"
  have_libs || lack "the Kafka jars (needs maven)" "real Kafka"
  have_postgres || lack "a PostgreSQL server (postgresql)" "real PostgreSQL"
  have_redis || lack "a Redis server (redis-server)" "real Redis"
  have_pgbouncer || lack "a pooler (pgbouncer)" "PostgreSQL behind a pooler"
  [ $missing = 0 ] && say "ready" || say "ready, with $missing missing (above)"
}

mkdir -p "$cache"
exec 8>"$cache/setup.lock"
flock 8 # two checkouts may set up at once
packages
jars
! { have_java && have_libs; } || bake
docker_tier 8>&-
report
