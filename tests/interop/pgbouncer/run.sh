#!/usr/bin/env bash
# Tests a built program's services that connect to PostgreSQL through PgBouncer, in session and in
# transaction mode, with separate servers on loopback:
#     tests/interop/pgbouncer/run.sh path/to/triptych
# Needs Python 3.11 or later. PostgreSQL 15 or later, pgbouncer and haproxy are installed from Debian's
# packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../postgres/server.sh
export PATH=$PATH:/usr/sbin PYTHONPATH=$PWD/../replicas
debian_packages pgbouncer haproxy
sql() { "$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command "$1"; }
# The role is not a superuser, but owns its databases.
sql 'CREATE ROLE triptych LOGIN'
for mode in session transaction; do sql "CREATE DATABASE $mode OWNER triptych ENCODING UTF8"; done
python3 -B check.py "$program" "$port" "$folder"
