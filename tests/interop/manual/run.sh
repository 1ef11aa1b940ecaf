#!/usr/bin/env bash
# Has mandoc read each page of a built program's manual:
#     tests/interop/manual/run.sh path/to/triptych
# Needs mandoc, which is installed from Debian's packages if it is missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
if ! command -v mandoc >/dev/null; then
    as_root=()
    [[ $EUID = 0 ]] || as_root=(sudo)
    "${as_root[@]}" apt-get install --yes --no-install-recommends mandoc >&2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" man --output "$folder"
mandoc -Tlint -W warning "$folder"/*.[17]
echo "manual: mandoc accepts $(ls "$folder" | wc -l) pages"
