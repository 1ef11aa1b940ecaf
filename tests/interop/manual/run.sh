#!/usr/bin/env bash
# Checks each page of a built program's manual with mandoc:
#     tests/interop/manual/run.sh path/to/triptych
# Needs mandoc, which is installed from Debian's packages if it is missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
. "$(dirname "$0")/../debian.sh"
debian_packages mandoc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" man --output "$folder"
mandoc -Tlint -W warning "$folder"/man*/*
echo "manual: mandoc accepts $(ls "$folder"/man* | wc -l) pages"
