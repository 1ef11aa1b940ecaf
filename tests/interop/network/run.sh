#!/usr/bin/env bash
# Tests several inference services of a built program on one database, with separate servers on loopback:
#     tests/interop/network/run.sh path/to/triptych
# Kills the services in turn while they close epochs. Needs Python 3.11 or later. PostgreSQL 15 or later
# is installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../postgres/server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command 'CREATE DATABASE epochs'
export PYTHONPATH=$PWD/../replicas PGOPTIONS="--search_path=inference"
python3 -B check.py "$program" "postgres://postgres@127.0.0.1:$port/epochs" "$bin/psql"
