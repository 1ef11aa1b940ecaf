#!/usr/bin/env bash
# Runs the tests that need a PostgreSQL server, with one of its own on loopback:
#     tests/interop/postgres/tests.sh
# Needs cargo and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
cd "$(dirname "$0")"
. ./server.sh
for database in scenarios answers replicas network copies cuts; do
    "$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet \
        --command "CREATE DATABASE $database"
done
export TRIPTYCH_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port"
# All tests that are ignored but those that draw pictures or need a bucket: a new one is not forgotten.
cargo test --quiet --tests -- --ignored --skip pictures --skip screenshots --skip a_bucket_on_a_server
