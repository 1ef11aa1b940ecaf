#!/usr/bin/env bash
# Tests datasets that move between servers, with servers of its own on loopback and a built program:
#     tests/interop/moves/run.sh path/to/triptych
# Three services share three PostgreSQL servers; services, moves and a server are killed under writers and
# readers. Needs Python 3.11 or later, PostgreSQL 15 or later, nats-server and haproxy, which are
# installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../postgres/server.sh
export PATH=$PATH:/usr/sbin PYTHONPATH=$PWD/../replicas:$PWD/../postgres
debian_packages nats-server haproxy
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command 'CREATE DATABASE rows'
python3 -B check.py "$program" "$port" "$bin" "$folder" "${as_server[@]}"
