#!/usr/bin/env bash
# Tests a built program against js-libp2p: tests/interop/run.sh path/to/triptych [name of a case]
# Needs Node 20 or later. Fetches the pinned packages the first time.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
source ./packages.sh
npm_packages
exec node run.mjs "$program" "${@:2}"
