#!/usr/bin/env bash
# Runs the code blocks of README.md in order with a built program, in an empty home:
#     tests/interop/readme/run.sh path/to/triptych
# Needs Python 3.11 or later. curl, jq and openssl are installed from Debian's packages if missing.
# If the system permits it, the blocks run in their own network, so that the ports are free.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../debian.sh
debian_packages curl jq openssl
alone=(unshare --user --map-root-user --net)
if command -v ip >/dev/null && "${alone[@]}" ip link set lo up 2>/dev/null; then
    exec "${alone[@]}" bash -c 'ip link set lo up && exec python3 -B blocks.py "$0"' "$program"
fi
exec python3 -B blocks.py "$program"
