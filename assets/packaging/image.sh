#!/usr/bin/env bash
# Builds a container image of a built program as an OCI archive:
#     assets/packaging/image.sh path/to/triptych archive.tar
# Needs buildah. Contains the libraries of this machine, on which the program must have been built.
set -euo pipefail
program=$(realpath "${1:?give the path of the triptych program}")
archive=$(realpath --canonicalize-missing "${2:?give the archive to write}")
here=$(realpath "$(dirname "$0")")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{etc/ssl/certs,tmp,usr/bin,usr/share} "$work/state/services"
install -m 755 "$program" "$root/usr/bin/triptych"
# The loader and all libraries at the paths that the program requests.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    install -D -m 755 "$(realpath "$library")" "$root$library"
done
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -rL /usr/share/zoneinfo "$root/usr/share/"
echo 'triptych:x:65532:65532:Triptych:/var/lib/triptych:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'triptych:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
buildah=(buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs)
"${buildah[@]}" build --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" \
    --file "$here/Containerfile" --tag triptych "$work" >/dev/null
# Archives written by buildah contain the current time.
"${buildah[@]}" push --quiet triptych "oci:$work/layout:triptych" >/dev/null
tar --create --directory "$work/layout" --sort name --owner 0 --group 0 --numeric-owner \
    --mtime "@$SOURCE_DATE_EPOCH" --mode u=rwX,go=rX --file "$archive" blobs index.json oci-layout
"${buildah[@]}" rmi --all >/dev/null
