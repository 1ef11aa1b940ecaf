#!/usr/bin/env bash
# Runs all tests, with PostgreSQL of the version that POSTGRES_BIN names or of Debian's packages:
#     tests/interop/postgres/tests.sh
# Needs cargo and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
cd "$(dirname "$0")"
. ./programs.sh
rmdir "$folder"
debian_packages pgbouncer
POSTGRES_BIN=$bin cargo test --quiet --tests -- postgres bouncer from_a_database several_services replicas copies
