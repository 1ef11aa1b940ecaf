#!/usr/bin/env bash
# Tests objects on an S3 server of its own on loopback: see `run.sh`.
set -euo pipefail
program=${1:?give the path of the triptych program}
s3=${2:?give the path of the S3 server}
cd "$(dirname "$0")"
objects=$(mktemp -d)
mkdir "$objects/rows"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export AWS_ACCESS_KEY_ID=interop AWS_SECRET_ACCESS_KEY='a secret of this test alone'
"$s3" --host 127.0.0.1 --port "$port" --access-key "$AWS_ACCESS_KEY_ID" \
    --secret-key "$AWS_SECRET_ACCESS_KEY" "$objects" >"$objects/log" 2>&1 &
server=$!
trap 'kill "$server"; rm -rf "$objects"' EXIT
url="endpoint=http://127.0.0.1:$port&region=local"
TRIPTYCH_TEST_BUCKET="s3://rows/team?$url" cargo test --quiet --package tsdb -- --ignored a_bucket_on_a_server
# Whether `doctor` says of a bucket what it should.
expect() {
    said=$(HOME=$objects "$program" doctor --cold "s3://$1?$url" || true)
    grep --quiet "$2" <<<"$said" || { echo "instead of '$2': $said" >&2 && exit 1; }
}
expect rows/team 'takes objects, and gives them back'
AWS_SECRET_ACCESS_KEY=other expect rows 'check AWS_ACCESS_KEY_ID'
left=$(find "$objects/rows" -type f ! -name '.*')
[[ -z $left ]] || { echo "objects are left: $left" >&2 && exit 1; }
