#!/usr/bin/env bash
# build-test-images.sh [kafka] [postgres] [redis] : the test images, without an image registry.
#
# A container needs no distribution, only a program and the libraries it loads.
# So an image here is a root folder made of this machine's own installed files
# (the Java runtime, the broker's jars, the PostgreSQL and Redis servers, a few tools) on
# top of "scratch". Where a registry can be reached, the official images do as
# well: ETL_TEST_KAFKA_IMAGE=apache/kafka:4.3.1, ETL_TEST_POSTGRES_IMAGE=postgres:17,
# ETL_TEST_REDIS_IMAGE=redis:7.
#
# An image carries a digest of what it was made of; it is built anew only when
# that changes, or with FORCE=1.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -gt 0 ] || set -- kafka postgres redis
find_engine || die "no Docker engine answers (scripts/dockerd.sh start)"
stage=$(mktemp -d "${TMPDIR:-/tmp}/etl-image.XXXXXX")
trap 'rm -rf -- "$stage"' EXIT

# new_root DIR : an empty system with a shell, some tools and three users.
new_root() {
  local root=$1 dir tool path
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64,share} "$root"/{etc,tmp,proc,sys,dev,run,root,var/lib}
  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
  ln -s /run "$root/var/run"
  chmod 1777 "$root/tmp"
  printf '%s\n' root:x:0:0::/root:/bin/sh postgres:x:999:999::/var/lib/postgresql:/bin/sh >"$root/etc/passwd"
  printf '%s\n' root:x:0: postgres:x:999: >"$root/etc/group"
  printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' >"$root/etc/nsswitch.conf"
  for tool in sh cat mkdir chmod chown cp rm ls id sleep find grep tail setpriv; do
    path=$(PATH=/usr/bin:/bin:/usr/sbin:/sbin type -P "$tool") || die "no $tool on this machine"
    cp -L "$path" "$root/usr/bin/$tool"
  done
}

# place ROOT FILE : a library, at the path where the loader will look for it.
place() {
  local to=$2
  case $to in /lib/* | /lib64/*) to=/usr$to ;; esac
  [ -e "$1$to" ] || install -D -m 755 "$2" "$1$to"
}

# add_libraries ROOT [OWN-FOLDER...] : all shared libraries that programs below ROOT ask for.
# OWN-FOLDERs are places inside ROOT that have libraries of their own.
add_libraries() {
  local root=$1 file
  shift
  # ldd answers 1 for a script among its arguments; that is no error here
  find "$root" -xdev -type f \( -perm -100 -o -name '*.so*' \) -print0 |
    { LD_LIBRARY_PATH=$(IFS=:; echo "$*") xargs -0 -n 64 ldd 2>/dev/null || true; } |
    awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// && $2 ~ /^\(/ {print $1}' | sort -u |
    while read -r file; do
      case $file in "$root"/*) ;; *) place "$root" "$file" ;; esac
    done
  # loaded by name at run time, or asked for by libraries inside of jars (zstd, snappy,
  # lz4), so ldd does not know of them
  for file in libgcc_s.so.1 libnss_files.so.2 libnss_dns.so.2 libresolv.so.2 libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6; do
    file=$(/sbin/ldconfig -p | awk -v name="$file" '$1 == name && /x86-64|AArch64/  && !found {print $NF; found = 1}')
    [ -z "$file" ] || place "$root" "$file"
  done
}

# digest SCRIPT FILE-OR-FOLDER... : contents of the scripts; names, sizes and times of big trees.
digest() {
  { cat "${BASH_SOURCE[0]}" "$1"; shift; find -L "$@" -type f -printf '%P %s %T@\n' | sort; } | sha256sum | cut -c1-16
}

up_to_date() { # up_to_date IMAGE DIGEST
  [ "${FORCE:-}" != 1 ] &&
    [ "$(docker image inspect -f '{{index .Config.Labels "etl.inputs"}}' "$1" 2>/dev/null)" = "$2" ]
}

# build IMAGE DIGEST ROOT : the Dockerfile's further lines come on standard input.
# The classic builder is enough, and is there on engines without the buildx plugin.
build() {
  local context=$stage/context
  mkdir -p "$context"
  tar -C "$3" --numeric-owner --sort=name -cf "$context/root.tar" .
  rm -rf "$3"
  { echo 'FROM scratch' && echo 'ADD root.tar /' && cat && echo "LABEL etl.inputs=$2"; } >"$context/Dockerfile"
  DOCKER_BUILDKIT=0 docker build --quiet --force-rm --network none -t "$1" "$context" >"$stage/build.log" 2>&1 || {
    cat "$stage/build.log" >&2
    die "building $1 failed"
  }
  rm -rf "$context"
  docker image prune --force --filter label=etl.inputs >/dev/null # the one that had the name before
  echo "$1: built"
}

kafka() {
  local root=$stage/kafka java_home inputs
  [ -e "$kafka_libs/.complete" ] || die "no broker jars in $kafka_libs (scripts/setup-test-services.sh)"
  java_home=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
  inputs=$(digest "$kafka_entrypoint" "$kafka_libs" "$java_home/bin/java" "$java_home/lib/modules")
  if up_to_date "$kafka_image" "$inputs"; then
    echo "$kafka_image: up to date"
    return
  fi
  new_root "$root"
  mkdir -p "$root"/opt/{jre,kafka/libs}
  # -h: Debian keeps the runtime's settings in /etc, behind links
  tar -C "$java_home" -ch --ignore-failed-read --exclude=./man --exclude=./legal --exclude=./docs --exclude=./jmods \
    --exclude=./include --exclude=./demo --exclude=src.zip --exclude=ct.sym . 2>/dev/null | tar -C "$root/opt/jre" -x
  find "$root/opt/jre/bin" -type f ! -name java ! -name keytool -delete
  cp -L "$kafka_libs"/*.jar "$root/opt/kafka/libs/"
  install -m 755 "$kafka_entrypoint" "$root/opt/kafka/entrypoint.sh"
  add_libraries "$root" "$root/opt/jre/lib" "$root/opt/jre/lib/server"
  build "$kafka_image" "$inputs" "$root" <<'D'
ENV PATH=/opt/jre/bin:/usr/bin LANG=C.UTF-8
RUN ["/opt/kafka/entrypoint.sh", "bake"]
ENTRYPOINT ["/opt/kafka/entrypoint.sh"]
D
}

postgres() {
  local root=$stage/postgres bin version image inputs locale
  bin=$(postgres_bin) || die "no PostgreSQL server below /usr/lib/postgresql (scripts/setup-test-services.sh)"
  version=$(basename "$(dirname "$bin")")
  image=etl-test/postgres:$version
  inputs=$(digest "$postgres_entrypoint" "$bin" "/usr/share/postgresql/$version")
  if up_to_date "$image" "$inputs"; then
    echo "$image: up to date"
    return
  fi
  new_root "$root"
  mkdir -p "$root"/usr/{lib,share}/postgresql/"$version" "$root"/usr/lib/locale "$root"/var/lib/postgresql/data "$root"/run/postgresql
  # without the compiler for hot queries: its library is 100 MB, and the server runs without it
  tar -C "$bin/.." --exclude='llvmjit*' --exclude=lib/bitcode --exclude=lib/pgxs -c bin lib |
    tar -C "$root/usr/lib/postgresql/$version" -x
  tar -C "/usr/share/postgresql/$version" --exclude=./man -ch . | tar -C "$root/usr/share/postgresql/$version" -x
  cp -a /usr/share/zoneinfo "$root/usr/share/" # Debian builds the server to use the system's
  for locale in /usr/lib/locale/C.utf8 /usr/lib/locale/C.UTF-8; do
    [ ! -d "$locale" ] || cp -aL "$locale" "$root/usr/lib/locale/"
  done
  install -m 755 "$postgres_entrypoint" "$root/usr/bin/docker-entrypoint.sh"
  add_libraries "$root"
  # SIGINT is the server's fast shutdown; SIGTERM would wait for every client to leave
  build "$image" "$inputs" "$root" <<D
ENV PATH=/usr/lib/postgresql/$version/bin:/usr/bin LANG=C.UTF-8
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
STOPSIGNAL SIGINT
D
}

redis() {
  local root=$stage/redis bin image=etl-test/redis:local inputs
  bin=$(command -v redis-server) || die "no redis-server on the PATH (scripts/setup-test-services.sh)"
  bin=$(readlink -f "$bin") # Debian's is a link to a program that checks, too
  inputs=$(digest "${BASH_SOURCE[0]}" "$bin")
  if up_to_date "$image" "$inputs"; then
    echo "$image: up to date"
    return
  fi
  new_root "$root"
  cp -L "$bin" "$root/usr/bin/redis-server"
  mkdir -m 1777 "$root/data"
  add_libraries "$root"
  build "$image" "$inputs" "$root" <<'D'
ENV PATH=/usr/bin LANG=C.UTF-8
WORKDIR /data
CMD ["redis-server"]
D
}

for what; do
  case $what in
  kafka | postgres | redis) "$what" ;;
  *) die "unknown image $what" ;;
  esac
done
