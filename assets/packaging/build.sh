#!/usr/bin/env bash
# Builds a release of the package in this or another directory. The same sources give the same bytes,
# independent of the paths of the directory, Cargo's home and the toolchain:
#     assets/packaging/build.sh [folder] [option of cargo build]...
# This requires the same compilers and linker. rust-version in Cargo.toml is the version of Rust.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
shift $(($# ? 1 : 0))
here=$(pwd -P)
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-$here/target}")
sysroot=$(rustc --print sysroot)
# Panic messages and assertions of C libraries contain paths. The last match is used.
rust=() c=()
for pair in "$cargo_home=/cargo" "$sysroot=/rust" "$here=/triptych" "$target=/triptych/target"; do
    rust+=("--remap-path-prefix=$pair")
    c+=("-ffile-prefix-map=$pair")
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${rust[*]}")
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="${CFLAGS-} ${c[*]}" CXXFLAGS="${CXXFLAGS-} ${c[*]}" ZERO_AR_DATE=1 CARGO_INCREMENTAL=0
exec cargo build --profile dist "$@"
