#!/usr/bin/env bash
# Tests the store on PostgreSQL, with a server of its own on loopback and a built program:
#     tests/interop/postgres/run.sh path/to/triptych
# Runs the tests that need a server, then loses the server under writers. Needs cargo, Python 3.11 or
# later and PostgreSQL 15 or later, which is installed from Debian's packages if missing; POSTGRES_BIN
# names the folder of another version's programs.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
find_programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }
as_root=()
[[ $EUID = 0 ]] || as_root=(sudo)
bin=${POSTGRES_BIN:-$(find_programs)}
if [[ -z $bin ]]; then
    "${as_root[@]}" apt-get install --yes --no-install-recommends postgresql >&2
    bin=$(find_programs)
fi
folder=$(mktemp -d)
# The server refuses to run as root.
as_server=()
if [[ $EUID = 0 ]]; then
    as_server=(runuser -u postgres --)
    id postgres >/dev/null 2>&1 || useradd --system --no-create-home postgres
    chown postgres "$folder"
fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as_server[@]}" "${bin:?install PostgreSQL}/initdb" --pgdata "$folder/data" --auth trust \
    --username postgres --encoding UTF8 --no-locale --no-sync >/dev/null
cat >>"$folder/data/postgresql.conf" <<CONFIG
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 200
CONFIG
server() { "${as_server[@]}" "$bin/pg_ctl" --pgdata "$folder/data" --log "$folder/log" --wait "$@" >/dev/null; }
trap 'server stop --mode immediate || true; rm -rf "$folder"' EXIT
server start
"$bin/psql" --host 127.0.0.1 --port "$port" --username postgres --quiet \
    --command 'CREATE DATABASE scenarios' --command 'CREATE DATABASE rows' \
    --command 'CREATE DATABASE answers' --command 'CREATE DATABASE replicas' \
    --command 'CREATE DATABASE network'
export TRIPTYCH_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port"
cargo test --quiet --tests -- --ignored postgres from_a_database tests::replicas several_services
python3 -B check.py "$program" "$TRIPTYCH_TEST_POSTGRES/rows" "$folder" \
    "${as_server[@]}" "$bin/pg_ctl" --pgdata "$folder/data" --log "$folder/log" --wait
