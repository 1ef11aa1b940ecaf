#!/usr/bin/env bash
# Installs the Rust version of Cargo.toml with rustup, and makes it the default:
#     assets/packaging/rust.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
rustup toolchain install "$version" --profile minimal --component clippy --component rustfmt
rustup default "$version"
