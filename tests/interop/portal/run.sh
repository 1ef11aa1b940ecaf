#!/usr/bin/env bash
# Tests the page at /portal in a real browser: tests/interop/portal/run.sh path/to/triptych [folder for pictures]
# Needs Node 20 or later and Chromium, headless; where that is missing and apt-get may be used, installs it.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
pictures=${2:+$(mkdir -p "$2" && realpath "$2")}
cd "$(dirname "$0")"
browser=
for name in chromium chromium-browser google-chrome chrome; do
    if browser=$(command -v "$name"); then break; fi
done
if [[ -z $browser ]]; then
    if [[ $(id -u) != 0 ]] || ! command -v apt-get > /dev/null; then
        echo "install chromium first" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends chromium > /dev/null ||
        { apt-get update > /dev/null && apt-get install -y --no-install-recommends chromium > /dev/null; }
    browser=$(command -v chromium)
fi
# Node 22 has it without being asked.
flags=()
if ! node -e 'process.exit(typeof WebSocket === "undefined" ? 1 : 0)'; then flags+=(--experimental-websocket); fi
exec node "${flags[@]}" run.mjs "$program" "$browser" "$pictures"
