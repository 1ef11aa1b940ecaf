#!/usr/bin/env bash
# Tests the store on PostgreSQL, with a server of its own on loopback and a built program:
#     tests/interop/postgres/run.sh path/to/triptych
# Runs the tests that need a server, then loses the server under writers. Needs cargo, Python 3.11 or
# later and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ./server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet \
    --command 'CREATE DATABASE scenarios' --command 'CREATE DATABASE rows' \
    --command 'CREATE DATABASE answers' --command 'CREATE DATABASE replicas' \
    --command 'CREATE DATABASE network' --command 'CREATE DATABASE cuts' \
    --command 'CREATE DATABASE copies'
export TRIPTYCH_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port"
cargo test --quiet --tests -- --ignored postgres from_a_database tests::replicas several_services
PYTHONPATH=$PWD/../replicas python3 -B check.py "$program" "$TRIPTYCH_TEST_POSTGRES/rows" "$folder" "${control[@]}"
