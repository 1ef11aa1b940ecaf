#!/usr/bin/env bash
# Tests how a cluster of a built program recovers from interrupted links, in network namespaces:
#     tests/interop/partition/run.sh path/to/triptych
# Needs root or sudo without a password and the right to create network namespaces, otherwise it is
# skipped. Also needs Python 3.11 or later, iproute2 and iptables, which are installed from Debian's
# packages if missing. Only its own namespaces are changed.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../debian.sh
export PATH=$PATH:/usr/sbin:/sbin
if [[ $EUID != 0 ]]; then
    if sudo --non-interactive true 2>/dev/null; then
        exec sudo --preserve-env=PATH "$PWD/run.sh" "$program"
    fi
    echo "skipped: network namespaces need root"
    exit 0
fi
debian_packages ip:iproute2 iptables nsenter:util-linux
if ! ip netns add "tpt$$" 2>/dev/null; then
    echo "skipped: network namespaces cannot be created here"
    exit 0
fi
ip netns del "tpt$$"
folder=$(mktemp -d)
remove() {
    local name
    for name in $(ip netns list 2>/dev/null | cut -d ' ' -f 1 | grep -E "^tp$$-"); do
        # Only processes that this script has started are in the namespace.
        ip netns pids "$name" | xargs --no-run-if-empty kill -9 || true
        ip netns del "$name"
    done
    rm -rf "$folder"
}
trap remove EXIT
trap 'exit 1' INT TERM
# Unlike with `ip netns exec`, namespaces that are created inside remain visible and removable outside.
in_space() { nsenter --net="/run/netns/$1" "${@:2}"; }
mkdir "$folder/links"
ip netns add "tp$$-b"
in_space "tp$$-b" python3 -B check.py "$program" "$folder/links" "tp$$"
