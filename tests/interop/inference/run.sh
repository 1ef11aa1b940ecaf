#!/usr/bin/env bash
# Tests a built program's inference service with third-party clients:
#     tests/interop/inference/run.sh path/to/triptych [name of a check]…
# Needs Python 3.11 or later with venv and Node 20 or later with npm. Fetches the pinned packages the
# first time (Python packages next to the program's build).
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
source ../packages.sh
npm_packages
python_packages
exec "$venv/bin/python" -B check.py "$program" "${@:2}"
