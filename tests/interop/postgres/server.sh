# Sourced by tests that need PostgreSQL: sets up a separate server on loopback in a temporary directory
# and stops it when the shell exits. With `disk_mib`, a disk of that size in memory holds its data
# without the write-ahead log (`disk_of=data`) or only that log (`disk_of=wal`). Sets the variables of
# `programs.sh`, `port` and `control`, the command that starts and stops the server.
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
port=$(free_port)
options=()
if [[ -n ${disk_mib:-} ]]; then
    disk=$folder/${disk_of:?set it to data or wal}
    "${as_server[@]}" mkdir "$disk"
    "${as_root[@]}" mount -t tmpfs -o "size=${disk_mib}m,mode=0700,uid=$(stat -c %u "$disk")" tmpfs "$disk"
    options=(--waldir "$folder/wal")
fi
"${as_server[@]}" "${bin:?install PostgreSQL}/initdb" "${options[@]}" --pgdata "$folder/data" --auth trust \
    --username postgres --encoding UTF8 --no-locale --no-sync >/dev/null
cat >>"$folder/data/postgresql.conf" <<CONFIG
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 200
CONFIG
# After a kill, the server first recovers the databases of all tests.
control=("${as_server[@]}" "$bin/pg_ctl" --pgdata "$folder/data" --log "$folder/log" --wait --timeout 240)
end_server() {
    "${control[@]}" stop --mode immediate >/dev/null || true
    [[ -z ${disk_mib:-} ]] || "${as_root[@]}" umount "$disk"
    rm -rf "$folder"
}
trap end_server EXIT
"${control[@]}" start >/dev/null
