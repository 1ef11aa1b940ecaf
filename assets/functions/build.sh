#!/bin/sh
# Compiles all functions in this directory to WASI preview 1 commands, reproducibly.
#
# Needs the Debian 12 packages clang, lld, wasi-libc and libclang-rt-dev-wasm32 (all of LLVM 14).
# With --check it builds in a temporary directory, and fails if a committed module differs.
set -eu
cd "$(dirname "$0")"

out=.
if [ "${1:-}" = --check ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi

for source in *.c; do
    module=${source%.c}.wasm
    clang --target=wasm32-wasi -std=c11 -D_GNU_SOURCE -Os -Wall -Wextra -Werror \
        -Wl,-s -o "$out/$module" "$source"
    chmod 644 "$out/$module"
    [ "$out" = . ] || cmp "$out/$module" "$module"
done
