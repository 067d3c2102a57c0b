#!/bin/sh
# Entry point of our own PostgreSQL test image: as much of the official image's
# contract as the tests use, so that either image will do. POSTGRES_PASSWORD
# sets the superuser's password; the arguments are "postgres -c name=value ...".
set -eu
export PGDATA="${PGDATA:-/var/lib/postgresql/data}"
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /run/postgresql
  chown postgres:postgres "$PGDATA" /run/postgresql
  chmod 700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
# "etl-ready" is the last thing the set-up writes: without it the folder is half-made.
if [ ! -f "$PGDATA/etl-ready" ]; then
  find "$PGDATA" -mindepth 1 -delete
  printf '%s\n' "${POSTGRES_PASSWORD:?}" >/tmp/pw
  initdb -D "$PGDATA" -U postgres --pwfile=/tmp/pw --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 --no-sync --no-instructions >/tmp/initdb.log 2>&1 || {
    cat /tmp/initdb.log >&2
    exit 1
  }
  rm -f /tmp/pw
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
  : >"$PGDATA/etl-ready"
fi
# After a SIGKILL postmaster.pid still names pid 1. That is us again; the server knows it for stale.
exec "$@"
