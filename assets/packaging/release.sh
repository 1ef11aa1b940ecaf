#!/usr/bin/env bash
# Creates all files of a release from a built program:
#     assets/packaging/release.sh path/to/triptych folder
# a Debian package, an rpm, an archive, a container image, an SBOM, their SHA256SUMS, which minisign
# signs with the secret key in the file MINISIGN_SECRET_KEY, and the public key, minisign.pub.
# The same program and commit give the same files.
# Needs buildah, minisign, and cargo-deb, cargo-generate-rpm and cargo-cyclonedx in the versions of
# `tools.sh`.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
out=$(realpath --canonicalize-missing "${2:?give the folder to write to}")
here=$(realpath "$(dirname "$0")")
cd "$here/../.."
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
version=$("$program" --version | cut -d ' ' -f 2)
machine=$(uname -m)
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both packaging tools expect the program in Cargo's release directory.
export CARGO_TARGET_DIR=$work/target
install -D -m 755 "$program" "$work/target/release/triptych"
"$here/generate.sh" "$program" "$work/target/release/package"
cargo deb --quiet --no-build --output "$out/" >/dev/null
cargo generate-rpm --source-date "$SOURCE_DATE_EPOCH" --output "$out/"

tree=triptych-$version-$machine-linux
mkdir "$work/$tree"
cp -r "$work/target/release/triptych" README.md LICENSE-* "$work/target/release/package"/* \
    assets/packaging/{systemd,etc} \
    assets/monitoring "$work/$tree"
tar --create --directory "$work" --sort name --owner 0 --group 0 --numeric-owner \
    --mtime "@$SOURCE_DATE_EPOCH" --mode u=rwX,go=rX "$tree" | xz --threads 4 >"$out/$tree.tar.xz"

"$here/image.sh" "$program" "$out/$tree.oci.tar"

# The SBOM is written next to the manifest, so use a copy of the manifests.
git ls-files -z '*Cargo.toml' Cargo.lock 'src/*lib.rs' src/main.rs src/bin/tui.rs |
    xargs -0 cp --parents --target-directory "$work"
cargo cyclonedx --quiet --manifest-path "$work/Cargo.toml" --format json --no-build-deps \
    --target "$(rustc --print host-tuple)" --override-filename "triptych-$version.cdx"
sed "s#file://$work#file:///triptych#g" "$work/triptych-$version.cdx.json" >"$out/triptych-$version.cdx.json"

cd "$out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
if [[ -n ${MINISIGN_SECRET_KEY-} ]]; then
    minisign -S -s "$MINISIGN_SECRET_KEY" -t "triptych $version" -m SHA256SUMS </dev/null
    minisign -R -s "$MINISIGN_SECRET_KEY" -p minisign.pub </dev/null
fi
