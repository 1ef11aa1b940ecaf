#!/usr/bin/env bash
# Creates all packages of a built program, installs them in temporary directories, and runs their
# programs:
#     tests/packages/run.sh path/to/triptych
# Needs systemd's tools. buildah, minisign, rpm and jq are installed from Debian's packages if missing.
# No other packages are installed on this machine.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
cd "$(dirname "$0")/../.."
if [[ ${IN_NAMESPACE-} != yes ]]; then
    . tests/interop/debian.sh
    debian_packages buildah minisign rpm jq
    PATH=$(assets/packaging/tools.sh):$PATH
    export PATH IN_NAMESPACE=yes
    alone=(unshare --mount)
    [[ $EUID = 0 ]] || alone=(unshare --user --map-root-user --mount)
    exec "${alone[@]}" "$0" "$program"
fi
# Hidden, so that scripts of packages do not find the systemd of this machine.
mount -t tmpfs tmpfs /run
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
functions=$PWD/assets/functions

fail() {
    echo "packages: $*" >&2
    exit 1
}

# Copies a shell, and the libraries that the shell and the program need, to the directory $1.
bring_libraries() {
    ldd "$program" /bin/sh | grep -o ' /[^ ]*\|^\s*/lib[^ ]*' | while read -r library; do
        install -D -m 755 "$(realpath "$library")" "$1$library"
    done
    install -D -m 755 "$(realpath /bin/sh)" "$1/bin/sh"
}

# Runs the program with the directory $1 as its root. It prints its version, then compiles and runs a
# function. The mounts disappear with the namespace.
runs_in() {
    local root=$1 said
    mkdir -p "$root/tmp" "$root/proc" "$root/dev"
    cp "$functions/hello.wasm" "$root/"
    said=$(unshare --mount sh -ec '
        mount -t proc proc "$0/proc"
        mount --rbind /dev "$0/dev"
        export HOME=/tmp
        chroot "$0" /usr/bin/triptych --version
        exec chroot "$0" /usr/bin/triptych function run /hello.wasm --local' "$root")
    [[ $said == "$("$program" --version)"*"Hello from WebAssembly"* ]] || fail "$root printed $said"
}

# Tests Debian's package: installation, units, user, upgrade with changed options, removal.
debian() {
    local root=$work/debian unit
    mkdir -p "$root"/{etc,var/lib/dpkg/{info,updates},usr/lib/systemd}
    touch "$root/var/lib/dpkg/status"
    local dpkg=(dpkg --root "$root" --force-script-chrootless --force-depends --force-confold)
    "${dpkg[@]}" --install "$work"/release/*.deb >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    grep -q '^triptych:' "$root/etc/passwd" || fail "no user triptych was created"
    cp -rn /usr/lib/systemd/system "$root/usr/lib/systemd/"
    bring_libraries "$root"
    for unit in "$root"/usr/lib/systemd/system/triptych-*.service; do
        unit=$(basename "$unit")
        systemd-analyze verify --root "$root" --man=no "$unit" 2>"$work/log" || fail "$(cat "$work/log")"
        [[ ! -s $work/log ]] || fail "$(cat "$work/log")"
        # The threshold is in tenths of a point. A service without these settings has 96.
        systemd-analyze security --root "$root" --offline=yes --threshold=20 --no-pager "$unit" \
            >"$work/log" || fail "$unit is exposed: $(cat "$work/log")"
    done
    [[ $(stat -c %a "$root/etc/triptych/head.env") = 600 ]] || fail "others can read head.env"
    runs_in "$root"
    echo 'OPTIONS=--rest-api 127.0.0.1:8079' >"$root/etc/triptych/head.env"
    "${dpkg[@]}" --install "$work"/release/*.deb >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    grep -q 8079 "$root/etc/triptych/head.env" || fail "an upgrade replaced changed options"
    "${dpkg[@]}" --purge triptych >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    [[ ! -e $root/usr/bin/triptych && ! -e $root/etc/triptych ]] || fail "files remain after a purge"
}

# Tests the rpm: its files, which are those of Debian's package at the rpm's own paths, its scripts and
# its program.
rpm_package() {
    local root=$work/rpm package
    package=$(echo "$work"/release/*.rpm)
    mkdir "$root"
    rpm --checksig --nosignature "$package" >"$work/log" || fail "$(cat "$work/log")"
    rpm2archive --nocompression - <"$package" | tar -x -C "$root"
    cmp "$root/usr/bin/triptych" "$work/unpacked/usr/bin/triptych"
    local debian_files rpm_files
    debian_files=$(cd "$work/unpacked" && find . -type f ! -path './usr/share/doc/*' |
        sed 's/\.gz$//; s/vendor-completions/site-functions/' | sort)
    rpm_files=$(cd "$root" && find . -type f ! -path './usr/share/doc/*' \
        ! -path './usr/share/licenses/*' | sort)
    diff <(echo "$debian_files") <(echo "$rpm_files") || fail "the rpm has other files"
    [[ $(rpm -qp --configfiles "$package" | wc -l) = 4 ]] || fail "the rpm replaces options"
    rpm -qp --requires "$package" | grep -q '^libc.so.6(GLIBC' || fail "the rpm needs no libc"
    for script in assets/packaging/rpm/*.sh; do
        sh -n "$script"
        rpm -qp --scripts "$package" | grep -qF "$(tail -n 2 "$script" | head -n 1)" ||
            fail "the rpm lacks $script"
    done
    bring_libraries "$root"
    runs_in "$root"
}

# Tests the image: its only layer, which has no additional libraries.
image() {
    local root=$work/image layout=$work/layout manifest layer
    mkdir "$root" "$layout"
    tar -xf "$work"/release/*.oci.tar -C "$layout"
    manifest=$(jq -r '.manifests[0].digest' "$layout/index.json")
    blob() { echo "$layout/blobs/sha256/${1#sha256:}"; }
    jq -r '.layers[].digest' "$(blob "$manifest")" | while read -r layer; do
        tar -xf "$(blob "$layer")" -C "$root" --no-same-owner
    done
    config=$(blob "$(jq -r .config.digest "$(blob "$manifest")")")
    jq -e '.config.User == "65532:65532" and .config.Entrypoint == ["/usr/bin/triptych"]' \
        "$config" >/dev/null || fail "the image runs something else: $(cat "$config")"
    [[ ! -e $root/bin/sh ]] || fail "the image has a shell"
    runs_in "$root"
}

# Tests the archive, the SBOM and the signed checksums. Changes of the checksums must be detected.
sums() (
    cd "$work/release"
    tar -xf ./*.tar.xz -C "$work"
    "$work"/triptych-*-linux/triptych --version >/dev/null
    jq -e '.bomFormat == "CycloneDX" and ([.components[].name] | contains(["wasmtime", "libp2p"]))' \
        ./*.cdx.json >/dev/null || fail "the SBOM lacks what is built in"
    sha256sum --quiet --check SHA256SUMS
    [[ $(wc -l <SHA256SUMS) = 5 ]] || fail "SHA256SUMS has $(wc -l <SHA256SUMS) lines"
    minisign -V -q -p "$work/key.pub" -m SHA256SUMS
    minisign -V -q -p minisign.pub -m SHA256SUMS
    sed 's/^./x/' SHA256SUMS >"$work/SHA256SUMS"
    ! minisign -V -q -p "$work/key.pub" -m "$work/SHA256SUMS" -x SHA256SUMS.minisig 2>/dev/null ||
        fail "changed sums pass"
)

minisign -G -W -p "$work/key.pub" -s "$work/key" >/dev/null
MINISIGN_SECRET_KEY=$work/key assets/packaging/release.sh "$program" "$work/release" >/dev/null
mkdir "$work/unpacked"
dpkg-deb --extract "$work"/release/*.deb "$work/unpacked"
debian
rpm_package
image
sums
echo "packages: the Debian package, rpm, image, archive and checksums are correct"
ls -l "$work/release" | awk 'NR > 1 { printf "  %9d %s\n", $5, $9 }'
