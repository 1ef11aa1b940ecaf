#!/usr/bin/env bash
# Builds a release of the package in a folder, this one or another, such that the same sources give
# the same bytes wherever the folder, Cargo's home and the toolchain are:
#     assets/packaging/build.sh [folder] [option of cargo build]...
# The same compilers and linker are needed for that; rust-version in Cargo.toml names Rust's.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
shift $(($# ? 1 : 0))
here=$(pwd -P)
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-$here/target}")
sysroot=$(rustc --print sysroot)
# Paths stand in messages of panics and in the assertions of C libraries. The last match counts.
rust=() c=()
for pair in "$cargo_home=/cargo" "$sysroot=/rust" "$here=/triptych" "$target=/triptych/target"; do
    rust+=("--remap-path-prefix=$pair")
    c+=("-ffile-prefix-map=$pair")
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${rust[*]}")
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="${CFLAGS-} ${c[*]}" CXXFLAGS="${CXXFLAGS-} ${c[*]}" ZERO_AR_DATE=1 CARGO_INCREMENTAL=0
exec cargo build --profile dist "$@"
