"""Compressed responses, read by common clients."""

import gzip
import json
import shutil
import subprocess

import requests

import rows

ENCODED = "accept-encoding: gzip"


def check(service):
    path = f"{service.url}/api/rows/bulk_download/?dataset={service.bars}&output="
    for output in ("json", "csv", "ndjson"):
        url = path + output
        plain = service.call("GET", url.removeprefix(service.url), headers={"Accept-Encoding": "identity"})
        assert plain.status_code == 200, plain.text
        assert "content-encoding" not in plain.headers
        want = plain.content
        # The second response is read from compressed chunks.
        for turn in ("first", "again"):
            for name, read in READERS.items():
                got = read(service, url)
                assert got == want, f"{name}, {output}, {turn}: {len(got)} bytes instead of {len(want)}"
    assert json.loads(service.get("/api/rows/bulk_download/", dataset=service.bars).text) == rows.bars()
    negotiated(service, path + "json")
    print(f"   read alike by {', '.join(READERS)}")


def with_requests(service, url):
    answer = requests.get(url, headers={"X-API-Key": service.reader}, timeout=60)
    assert answer.headers["content-encoding"] == "gzip", answer.headers
    assert "accept-encoding" in answer.headers["vary"].lower(), answer.headers
    return answer.content


def with_curl(service, url):
    command = ["curl", "--silent", "--fail", "--compressed", "-H", f"X-API-Key: {service.reader}", url]
    return subprocess.run(command, capture_output=True, check=True).stdout


def with_node(service, url):
    script = (
        "const answer = await fetch(process.argv[1], {headers: {'X-API-Key': process.argv[2]}});"
        "if (answer.headers.get('content-encoding') !== 'gzip') throw new Error('not compressed');"
        "process.stdout.write(Buffer.from(await answer.arrayBuffer()));"
    )
    command = ["node", "--input-type=module", "-e", script, url, service.reader]
    return subprocess.run(command, capture_output=True, check=True).stdout


def raw(service, url):
    """Returns the compressed bytes."""
    command = ["curl", "--silent", "--fail", "-H", ENCODED, "-H", f"X-API-Key: {service.reader}", url]
    return subprocess.run(command, capture_output=True, check=True).stdout


def with_gunzip(service, url):
    return subprocess.run(["gunzip", "--stdout"], input=raw(service, url), capture_output=True, check=True).stdout


def with_python(service, url):
    return gzip.decompress(raw(service, url))


def negotiated(service, url):
    """Checks that only accepted encodings are sent."""
    path = url.removeprefix(service.url)

    def encoding(accepted):
        answer = service.call("GET", path, headers={"Accept-Encoding": accepted}, stream=True)
        assert answer.status_code == 200
        answer.close()
        return answer.headers.get("content-encoding")

    assert encoding("identity") is None
    assert encoding("gzip;q=0") is None
    assert encoding("br") is None
    assert encoding("br, gzip;q=0.5") == "gzip"
    assert encoding("zstd") == "zstd"
    if shutil.which("zstd"):
        packed = service.call("GET", path, headers={"Accept-Encoding": "zstd"}, stream=True).raw.read()
        unpacked = subprocess.run(["zstd", "-d", "--stdout"], input=packed, capture_output=True, check=True).stdout
        assert json.loads(unpacked) == rows.bars()


READERS = {
    "requests": with_requests,
    "curl": with_curl,
    "node": with_node,
    "gunzip": with_gunzip,
    "gzip of Python": with_python,
}
