#!/usr/bin/env bash
# Tests a built program while its clock is changed:
#     tests/interop/clock/run.sh path/to/triptych
# Needs Python 3.11 or later and libfaketime, which is installed from Debian's packages if missing.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")"
. ../debian.sh
find_library() { find /usr/lib /usr/local/lib -name libfaketimeMT.so.1 2>/dev/null | head -n 1; }
library=$(find_library)
if [[ -z $library ]]; then
    debian_packages faketime
    library=$(find_library)
fi
python3 -B inference.py "$program" "${library:?install libfaketime}"
python3 -B datasets.py "$program" "$library"
