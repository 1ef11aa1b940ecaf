#!/usr/bin/env bash
# Tests the portal in a browser: tests/interop/portal/run.sh path/to/triptych [folder for pictures]
# Needs Node 20 or later. Headless Chromium is installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
pictures=${2:+$(mkdir -p "$2" && realpath "$2")}
cd "$(dirname "$0")"
. ../debian.sh
browser=
for name in chromium chromium-browser google-chrome chrome; do
    if browser=$(command -v "$name"); then break; fi
done
if [[ -z $browser ]]; then
    debian_packages chromium
    browser=$(command -v chromium)
fi
# Node 22 needs no flag for WebSockets.
flags=()
if ! node -e 'process.exit(typeof WebSocket === "undefined" ? 1 : 0)'; then flags+=(--experimental-websocket); fi
exec node "${flags[@]}" run.mjs "$program" "$browser" "$pictures"
