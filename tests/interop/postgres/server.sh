# Sourced by tests that need PostgreSQL: sets up a server of its own on loopback, in a temporary folder,
# and ends it with the shell. POSTGRES_BIN names the folder of another version's programs. Sets `folder`,
# `port`, `bin`, and `control`, the command that starts and stops the server.
find_programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
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
port=$(free_port)
"${as_server[@]}" "${bin:?install PostgreSQL}/initdb" --pgdata "$folder/data" --auth trust \
    --username postgres --encoding UTF8 --no-locale --no-sync >/dev/null
cat >>"$folder/data/postgresql.conf" <<CONFIG
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 200
CONFIG
control=("${as_server[@]}" "$bin/pg_ctl" --pgdata "$folder/data" --log "$folder/log" --wait)
trap '"${control[@]}" stop --mode immediate >/dev/null || true; rm -rf "$folder"' EXIT
"${control[@]}" start >/dev/null
