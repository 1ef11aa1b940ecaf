#!/usr/bin/env bash
# Tests a built program's inference service with tools of others:
#     tests/interop/inference/run.sh path/to/triptych [name of a check]…
# Needs Python 3.11 or later with venv and Node 20 or later with npm; fetches the pinned packages the
# first time, the Python ones beside the program's build.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
    npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
    touch node_modules/.package-lock.json
fi
venv=${CARGO_TARGET_DIR:-$(realpath ../../..)/target}/interop/inference
if [[ ! $venv/installed -nt requirements.txt ]]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: -r requirements.txt
    touch "$venv/installed"
fi
exec "$venv/bin/python" -B check.py "$program" "${@:2}"
