# Sourced by the other scripts: where the test services keep what they download
# and build, and which versions they are. Nothing here has an effect of its own.
#
#   ETL_TEST_CACHE    the folder               default: the user's cache folder, etl-test below it
#   ETL_KAFKA_VERSION the broker's version     default 4.3.1
#
# The folder lies outside the checkout, so that a second clone downloads nothing.
# internal/testservice computes the same path; keep the two alike.

cache=${ETL_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME or ETL_TEST_CACHE must be set}/.cache}/etl-test}
kafka_version=${ETL_KAFKA_VERSION:-4.3.1}
kafka_libs=$cache/kafka-$kafka_version/libs
kafka_baked=$cache/kafka-$kafka_version/baked
kafka_image=${ETL_TEST_KAFKA_IMAGE:-etl-test/kafka:$kafka_version}
docker_home=$cache/docker

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kafka_entrypoint=$repo/internal/kafkatest/kafka-entrypoint.sh
postgres_entrypoint=$repo/scripts/postgres-entrypoint.sh

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# again COMMAND... : for what asks the network, which may fail for a moment. Three tries.
again() {
  local pause
  for pause in 5 20; do
    "$@" && return
    echo "${0##*/}: failed, again in $pause s: $*" >&2
    sleep "$pause"
  done
  "$@"
}

# An engine that answers within a moment. A socket without a daemon hangs some clients.
engine_answers() {
  command -v docker >/dev/null && timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

# The engine to use: the caller's own if it answers, else our private one (dockerd.sh).
find_engine() {
  engine_answers && return
  export DOCKER_HOST=unix://$docker_home/docker.sock
  [ -S "$docker_home/docker.sock" ] && engine_answers
}

postgres_bin() {
  local newest
  newest=$(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V | tail -1) || return 1
  [ -n "$newest" ] && dirname "$newest"
}
