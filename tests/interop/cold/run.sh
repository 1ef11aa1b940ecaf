#!/usr/bin/env bash
# Tests old rows on S3, with an S3 server and a PostgreSQL server of its own on loopback:
#     tests/interop/cold/run.sh path/to/triptych
# First objects alone, and `doctor`. Then rows are read beside a service that keeps all in PostgreSQL, the
# service is killed while it moves rows, the S3 server is lost, and an object is deleted by hand. Last the
# database is copied to another one. Needs cargo, Python 3.11 or later and PostgreSQL 15 or later: see
# `../postgres/programs.sh`. Fetches and builds the S3 server the first time.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ./s3.sh
./objects.sh "$program" "$s3"
. ../postgres/server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet \
    --command 'CREATE DATABASE cold' --command 'CREATE DATABASE plain' \
    --command 'CREATE DATABASE copied'
PYTHONPATH=$PWD/../replicas python3 -B check.py "$program" \
    "postgres://postgres@127.0.0.1:$port" "$s3" "$bin/psql"
