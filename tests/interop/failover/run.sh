#!/usr/bin/env bash
# Tests a built program's services on a database that fails over, with separate servers on loopback:
#     tests/interop/failover/run.sh path/to/triptych
# Three services behind HAProxy use three PostgreSQL servers under Patroni with etcd. Each process is
# killed in turn under load, which lasts some minutes. Needs Python 3.11 or later. patroni, etcd-server,
# PostgreSQL 15 or later and haproxy are installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
shift
cd "$(dirname "$0")"
. ../postgres/programs.sh
trap 'rm -rf "$folder"' EXIT
export PATH=$PATH:/usr/sbin PYTHONPATH=$PWD/../replicas
debian_packages haproxy patroni etcd:etcd-server
python3 -B check.py "$program" "$folder" "$bin" "$@"
