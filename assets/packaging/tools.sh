#!/usr/bin/env bash
# Installs tested versions of the packaging tools, and prints their directory for PATH:
#     PATH=$(assets/packaging/tools.sh):$PATH
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
for tool in cargo-deb@3.8.0 cargo-generate-rpm@0.21.1 cargo-cyclonedx@0.5.9; do
    # Cargo does nothing if this version is installed.
    cargo install --quiet --locked --root "$tools" "$tool" >&2
done
echo "$tools/bin"
