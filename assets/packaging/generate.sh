#!/usr/bin/env bash
# Writes the generated files of packages, the manual pages and completions:
#     assets/packaging/generate.sh path/to/triptych folder
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
folder=${2:?give the folder to write to}
rm -rf "$folder"
mkdir -p "$folder/completions"
"$program" man --output "$folder"
"$program" completions bash >"$folder/completions/triptych"
"$program" completions zsh >"$folder/completions/_triptych"
"$program" completions fish >"$folder/completions/triptych.fish"
