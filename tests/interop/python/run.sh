#!/usr/bin/env bash
# Tests the Python package in assets/python with a built program:
#     tests/interop/python/run.sh path/to/triptych [name of a test]…
# Needs Python 3.11 or later with venv. Fetches the pinned packages the first time, next to the program's
# build.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
source ../packages.sh
python_packages
# Building the package writes files next to its sources, so a copy is used.
sources=$(mktemp -d)
cp -r ../../../assets/python/. "$sources"
"$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    --no-build-isolation "$sources"
rm -rf "$sources"
exec "$venv/bin/python" -B check.py "$program" "${@:2}"
