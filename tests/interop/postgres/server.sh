# Sourced by tests that need PostgreSQL: sets up a server of its own on loopback, in a temporary folder,
# and ends it with the shell. Sets what `programs.sh` does, `port`, and `control`, the command that starts
# and stops the server.
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
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
