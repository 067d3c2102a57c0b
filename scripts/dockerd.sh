#!/usr/bin/env bash
# dockerd.sh start|stop|status|env|clean : a private Docker engine for the tests.
#
#   start   start it, or find it running      (needs root)
#   stop    remove the tests' containers, end it, leave nothing on the machine
#   clean   remove containers and networks that killed test programs left
#   env     print the variables that point a shell at it
#
# It changes no firewall rule and no routing: published ports go through Docker's
# userland proxy, which is all that a test on this machine needs. Only the daemon
# named in our own pid file is ever ended. State, images and log: $cache/docker.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
pidfile=$docker_home/dockerd.pid
log=$docker_home/dockerd.log
own_bridge=$docker_home/own-bridge # there when no other engine had made the bridge before us
export DOCKER_HOST=unix://$docker_home/docker.sock

command_line() { { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null || true; }

# The number in the pid file belongs to a daemon of ours; numbers get reused.
alive() {
  local pid
  pid=$(cat "$pidfile" 2>/dev/null) && [ -n "$pid" ] || return 1
  [[ $(command_line "$pid") == *"--pidfile=$pidfile "* ]]
}

wait_for() { # wait_for TENTHS-OF-A-SECOND COMMAND...
  local left=$1
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || return 1
    sleep 0.1
  done
}
gone() { ! kill -0 "$1" 2>/dev/null; }
up_or_dead() { engine_answers || ! kill -0 "$daemon" 2>/dev/null; }

# A dockerd that was killed leaves its containerd's pid file. While that number
# is a zombie nobody has reaped, the next dockerd takes it for alive and gives up.
forget_containerd() {
  local file=$docker_home/exec/containerd/containerd.pid pid
  pid=$(cat "$file" 2>/dev/null) && [ -n "$pid" ] || return 0
  [[ $(command_line "$pid") == *"$docker_home/exec/containerd/"* ]] || rm -f "$file"
}

launch() {
  : >"$log"
  # A session of its own: the end of a CI step must not take it along. Descriptor 9 is our lock.
  setsid dockerd \
    --pidfile="$pidfile" --host="$DOCKER_HOST" \
    --data-root="$docker_home/data" --exec-root="$docker_home/exec" \
    --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false \
    --userland-proxy=true --shutdown-timeout=5 \
    >>"$log" 2>&1 </dev/null 9>&- &
  daemon=$!
}

start() {
  [ "$(id -u)" = 0 ] || die "a Docker engine needs root"
  command -v dockerd >/dev/null || die "dockerd is not installed (Debian: apt-get install docker.io)"
  mkdir -p "$docker_home"
  exec 9>"$docker_home/lock"
  flock 9 # a second starter waits here, then finds it running
  if alive && wait_for 100 engine_answers; then
    echo "dockerd: running already, pid $(cat "$pidfile")"
    return
  fi
  ! alive || die "pid $(cat "$pidfile") does not answer; its log is $log"
  rm -f "$pidfile" "$docker_home/docker.sock"
  forget_containerd
  [ -e /sys/class/net/docker0 ] || : >"$own_bridge"
  launch
  wait_for 300 up_or_dead && engine_answers || {
    tail -5 "$log" >&2
    die "dockerd did not start; its log is $log"
  }
  echo "dockerd: started, pid $(cat "$pidfile")"
}

# testcontainers labels what it makes. Its own reaper is an image from a registry, which we do without.
clean() {
  local ids
  ids=$(docker ps -aq --filter label=org.testcontainers=true)
  [ -z "$ids" ] || docker rm -f -v $ids >/dev/null
  ids=$(docker network ls -q --filter label=org.testcontainers=true)
  [ -z "$ids" ] || docker network rm $ids >/dev/null
}

# What a daemon leaves behind: its bridge, empty control groups and, when killed, mounts.
tidy() {
  local dir
  if [ -e "$own_bridge" ]; then ip link del docker0 2>/dev/null || true; fi
  rm -f "$own_bridge"
  rmdir /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker 2>/dev/null || true
  awk -v dir="$docker_home/" 'index($2, dir) == 1 {print $2}' /proc/mounts | tac |
    while read -r dir; do umount -l "$dir" 2>/dev/null || true; done
}

stop() {
  local pid
  if alive; then
    pid=$(cat "$pidfile")
    ! engine_answers || clean || true
    kill -TERM "$pid"
    wait_for 200 gone "$pid" || die "pid $pid did not end within 20 s"
  fi
  tidy
  echo "dockerd: stopped"
}

case "${1:-}" in
start | stop | clean) "$1" ;;
status) if alive && engine_answers; then echo "running, pid $(cat "$pidfile")"; else echo stopped && exit 3; fi ;;
env) echo "export DOCKER_HOST=$DOCKER_HOST TESTCONTAINERS_RYUK_DISABLED=true" ;;
*) die "usage: dockerd.sh start|stop|status|env|clean" ;;
esac
