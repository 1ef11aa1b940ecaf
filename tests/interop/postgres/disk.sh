#!/usr/bin/env bash
# Tests a built program's services whose database has a full disk, with a separate server whose data or write-ahead
# log is on a small disk in memory:
#     tests/interop/postgres/disk.sh path/to/triptych data
#     tests/interop/postgres/disk.sh path/to/triptych wal
# Needs the right to mount, Python 3.11 or later and PostgreSQL 15 or later: see `programs.sh`.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
disk_mib=100 disk_of=${2:?say which disk is small}
. ./server.sh
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet --command 'CREATE DATABASE small'
export PYTHONPATH=$PWD/../replicas
python3 -B disk.py "$program" "postgres://postgres@127.0.0.1:$port/small" "$disk" "${control[@]}"
