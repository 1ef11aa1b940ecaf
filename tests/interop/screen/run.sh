#!/usr/bin/env bash
# Tests a built program's screen in a terminal: compares its numbers with the responses of the services.
# Then suspends each service in turn, which every screen must show:
#     tests/interop/screen/run.sh path/to/triptych
# Needs Python 3.11 or later with venv. Fetches the pinned packages the first time, next to the program's
# build.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
source ../packages.sh
python_packages
"$venv/bin/python" -B figures.py "$program"
"$venv/bin/python" -B stopped.py "$program"
