#!/usr/bin/env bash
# Tests services whose database's disk is full, with a server of its own on a small disk in memory:
#     tests/interop/postgres/disk.sh path/to/triptych
# Needs the right to mount, Python 3.11 or later and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
disk_mib=100
. ./server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command 'CREATE DATABASE small'
export PYTHONPATH=$PWD/../replicas
python3 -B disk.py "$program" "postgres://postgres@127.0.0.1:$port/small" "$folder/data"
