#!/usr/bin/env bash
# Builds a release twice in two directories of different lengths and compares the bytes:
#     tests/packages/reproducible.sh           a small program with critical libraries: C, assembler,
#                                              macros, generated code
#     tests/packages/reproducible.sh --whole   the whole program: half an hour, 8 GB
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folders=("$work/one" "$work/a-folder-of-another-length/two")

small() {
    mkdir -p "$1/src"
    {
        printf '[package]\nname = "triptych"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\n'
        sed -n '/^\[workspace.dependencies\]/,/^\[/p' Cargo.toml |
            grep -E '^(rusqlite|serde|serde_json|rustls|zstd) = '
        # Settings of the profiles for all crates.
        sed -n '/^\[profile.release\]/,/^$/p; /^\[profile.dist\]/,/^$/p' Cargo.toml
    } >"$1/Cargo.toml"
    cp Cargo.lock "$1/"
    cat >"$1/src/main.rs" <<'RUST'
#[derive(serde::Serialize)]
struct Versions {
    file: &'static str,
    sqlite: &'static str,
    zstd: usize,
    suites: usize,
}

fn main() {
    let suites = rustls::crypto::ring::default_provider().cipher_suites.len();
    let zstd = zstd::bulk::compress(b"zstd", 3).unwrap().len();
    let versions = Versions { file: file!(), sqlite: rusqlite::version(), zstd, suites };
    println!("{}", serde_json::to_string(&versions).unwrap());
}
RUST
}

for folder in "${folders[@]}"; do
    mkdir -p "$folder"
    if [[ ${1-} = --whole ]]; then
        git archive HEAD | tar -x -C "$folder"
    else
        small "$folder"
    fi
    env -u CARGO_TARGET_DIR assets/packaging/build.sh "$folder" --quiet --bin triptych
done
programs=("${folders[@]/%//target/dist/triptych}")
"${programs[0]}" --version
if strings "${programs[0]}" | grep -F -e "$work" -e "$(realpath "${CARGO_HOME:-$HOME/.cargo}")/"; then
    echo "reproducible: the program names folders of this machine" >&2
    exit 1
fi
cmp "${programs[@]}"
echo "reproducible: both builds are equal, $(sha256sum <"${programs[0]}" | cut -c 1-16)"
