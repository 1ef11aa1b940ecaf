# Sourced by tests that need an S3 server: one that keeps its objects in files, so that it can be killed
# and started again. Sets `s3`, the path of its program, which cargo fetches and builds the first time,
# beside this program's build, in about two minutes.
s3_root=${CARGO_TARGET_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")/target}/interop/cold
s3=$s3_root/bin/s3s-fs
install_s3() {
    [[ ! -x $s3 ]] || return 0
    CARGO_TARGET_DIR=$s3_root/build cargo install --quiet --debug --locked --root "$s3_root" \
        --features binary --version 0.14.1 s3s-fs
    rm -rf "$s3_root/build"
}
mkdir -p "$s3_root"
# Tests that run side by side build it once.
{ flock 9 && install_s3; } 9>"$s3_root/lock"
