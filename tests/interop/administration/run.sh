#!/usr/bin/env bash
# Tests a built program's services while their PostgreSQL is administrated, with separate servers on loopback:
#     tests/interop/administration/run.sh path/to/triptych
# TLS modes, a role that is no superuser, a publication of all tables, a new password without a restart,
# and a dump during writes. Needs Python 3.11 or later and openssl. PostgreSQL 15 or later and haproxy
# are installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../postgres/server.sh
export PATH=$PATH:/usr/sbin PYTHONPATH=$PWD/../replicas
debian_packages haproxy openssl
python3 -B check.py "$program" "$bin" "$port" "$folder" "${control[@]}"
