#!/usr/bin/env bash
# Loses a PostgreSQL server of its own on loopback under writers of a built program:
#     tests/interop/postgres/run.sh path/to/triptych
# Needs Python 3.11 or later and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ./server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet \
    --command 'CREATE DATABASE rows'
PYTHONPATH=$PWD/../replicas python3 -B check.py "$program" \
    "postgres://postgres@127.0.0.1:$port/rows" "$folder" "${control[@]}"
