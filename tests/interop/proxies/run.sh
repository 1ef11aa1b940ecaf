#!/usr/bin/env bash
# Tests a built program's dataset service behind third-party proxies and caches with default settings, and as
# the guide configures them:
#     tests/interop/proxies/run.sh path/to/triptych
# Needs Python 3.11 or later, varnish, nginx and haproxy, which are installed from Debian's packages if
# missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../debian.sh
debian_packages varnishd:varnish nginx haproxy
export PATH=$PATH:/usr/sbin
exec python3 -B check.py "$program"
