# Sourced by tests that need PostgreSQL, which is installed from Debian's packages if missing.
# POSTGRES_BIN names the directory of another version's programs. Sets `bin`, `folder` (a temporary
# directory of the server's user), `as_root` and `as_server` (prefixes of commands that run as these
# users).
. "$(dirname "${BASH_SOURCE[0]}")/../debian.sh"
find_programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }
# Chooses ports below those of outgoing connections, which could take the port of a server before its
# restart.
free_port() {
    python3 - <<'PYTHON'
import random, socket
for port in random.sample(range(10_000, 30_000), 100):
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
PYTHON
}
as_root=()
[[ $EUID = 0 ]] || as_root=(sudo)
bin=${POSTGRES_BIN:-$(find_programs)}
if [[ -z $bin ]]; then
    debian_packages initdb:postgresql
    bin=$(find_programs)
fi
folder=$(mktemp -d)
# PostgreSQL refuses to run as root.
as_server=()
if [[ $EUID = 0 ]]; then
    as_server=(runuser -u postgres --)
    id postgres >/dev/null 2>&1 || useradd --system --no-create-home postgres
    chown postgres "$folder"
fi
