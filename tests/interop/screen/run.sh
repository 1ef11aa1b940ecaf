#!/usr/bin/env bash
# Drives a built program's screen in a terminal: compares its figures with what the services say at the
# same time, and stops each service in turn, which every screen has to show:
#     tests/interop/screen/run.sh path/to/triptych
# Needs Python 3.11 or later with venv; fetches the pinned packages the first time, beside the program's
# build.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
source ../packages.sh
python_packages
"$venv/bin/python" -B figures.py "$program"
"$venv/bin/python" -B stopped.py "$program"
