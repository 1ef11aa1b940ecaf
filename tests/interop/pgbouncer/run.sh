#!/usr/bin/env bash
# Tests services whose connections to PostgreSQL go through PgBouncer, in session and in transaction mode, with
# servers of their own on loopback and a built program:
#     tests/interop/pgbouncer/run.sh path/to/triptych
# Needs Python 3.11 or later, and PostgreSQL 15 or later, pgbouncer and haproxy, which are installed from
# Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../postgres/server.sh
export PATH=$PATH:/usr/sbin PYTHONPATH=$PWD/../replicas
debian_packages pgbouncer haproxy
sql() { "$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command "$1"; }
# No superuser, but the owner of its databases.
sql 'CREATE ROLE triptych LOGIN'
for mode in session transaction; do sql "CREATE DATABASE $mode OWNER triptych ENCODING UTF8"; done
python3 -B check.py "$program" "$port" "$folder"
