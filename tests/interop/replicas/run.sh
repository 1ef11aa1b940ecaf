#!/usr/bin/env bash
# Tests several dataset services of a built program on one database behind a load balancer, with own
# servers on loopback:
#     tests/interop/replicas/run.sh path/to/triptych
# Kills, stops and suspends services and PostgreSQL in turn under load. Needs Python 3.11 or later.
# PostgreSQL 15 or later and haproxy are installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../postgres/server.sh
export PATH=$PATH:/usr/sbin
debian_packages haproxy
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet \
    --command 'CREATE DATABASE replicas'
python3 -B check.py "$program" "postgres://postgres@127.0.0.1:$port/replicas" "$folder" "${control[@]}"
