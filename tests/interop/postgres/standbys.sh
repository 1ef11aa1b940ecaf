#!/usr/bin/env bash
# Tests services that read from a standby, with two servers of its own on loopback and a built program:
#     tests/interop/postgres/standbys.sh path/to/triptych
# Needs Python 3.11 or later and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ./server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command 'CREATE DATABASE shared'
export PYTHONPATH=$PWD/../replicas
python3 -B standbys.py "$program" "postgres://postgres@127.0.0.1:$port/shared" "$bin" "$folder" \
    "${as_server[@]}"
