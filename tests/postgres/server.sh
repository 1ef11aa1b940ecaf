# Starts a temporary PostgreSQL server and stops it when no test process uses it any longer:
#     sh server.sh BIN FOLDER PORT PASSWORD_FILE
# BIN contains `initdb` and `pg_ctl`. FOLDER contains the directory `users`, in which each test process
# has a file named by its id. Creates the file `ready` once the server accepts connections. Removes
# FOLDER at the end.
set -u
bin=$1 folder=$2 port=$3
export PGUSER=postgres PGHOST=127.0.0.1 PGPORT="$port" PGDATABASE=postgres PGPASSFILE="$folder/pgpass"
# PostgreSQL refuses to run as root.
as_server=
data=$folder/server
mkdir "$data"
if [ "$(id -u)" = 0 ]; then
    as_server='runuser -u postgres --'
    chown postgres "$data" "$folder/password" "$folder/pgbouncer.ini" && chmod 711 "$folder" || exit 1
fi
cd "$data" || exit 1
# `password` is the fastest method for clients. Members of the role `scram` use the default method of
# servers.
$as_server "$bin/initdb" --pgdata "$data/data" --username postgres --pwfile "$folder/password" \
    --auth-local peer --auth-host password --encoding UTF8 --no-locale --no-sync || exit 1
cat >>"$data/data/postgresql.conf" <<CONFIG
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 400
max_wal_size = 128MB
fsync = off
full_page_writes = off
wal_level = logical
CONFIG
cat >"$data/data/pg_hba.conf" <<'CONFIG'
host all "+scram" 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 password
CONFIG
pgbouncer=
stop() {
    [ -z "$pgbouncer" ] || kill "$pgbouncer"
    $as_server "$bin/pg_ctl" --pgdata "$data/data" stop --mode immediate
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM
$as_server "$bin/pg_ctl" --pgdata "$data/data" --log "$data/log" --wait --timeout 240 start || exit 1
if command -v pgbouncer; then
    $as_server pgbouncer "$folder/pgbouncer.ini" &
    pgbouncer=$!
    printf 'postgres://postgres@127.0.0.1:%s' "$(cat "$folder/pooled_port")" >"$folder/pooled"
fi
touch "$folder/ready"

# Drops the databases of a process that has exited, to save space.
drop_databases() {
    "$bin/psql" --quiet --no-align --tuples-only <<SQL
SELECT format('DROP DATABASE %I WITH (FORCE)', datname) FROM pg_database WHERE datname LIKE 'test\_$1\_%' \gexec
SQL
}

n_idle=0
while [ "$n_idle" -lt 15 ]; do
    sleep 2
    n_idle=$((n_idle + 1))
    for user in "$folder"/users/*; do
        id=${user##*/}
        [ "$id" != '*' ] || continue
        if kill -0 "$id"; then
            n_idle=0
        else
            rm -f "$user"
            drop_databases "$id"
        fi
    done
    if [ "$n_idle" -ge 15 ]; then
        # From now on, no process can register. If a process has just registered, the server continues.
        mv "$folder/users" "$folder/left"
        if [ -n "$(ls "$folder/left")" ]; then
            mv "$folder/left" "$folder/users"
            n_idle=0
        fi
    fi
done
