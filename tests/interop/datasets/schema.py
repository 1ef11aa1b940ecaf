"""Schemathesis with the OpenAPI description of the service."""

import pathlib
import re
import subprocess
import sys

import requests

HERE = pathlib.Path(__file__).parent

def check(service):
    page = requests.get(f"{service.url}/api/docs/", timeout=15)
    assert page.status_code == 200 and "/api/rows/bulk_download/" in page.text
    metrics = requests.get(f"{service.url}/metrics", timeout=15)
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4"), metrics.headers
    prometheus(metrics.text)
    run(service.url, HERE / "schemathesis.toml", f"X-API-Key: {service.owner}", service.folder.name, examples=25)


def run(url, config, header, folder, examples):
    """Tests the service at `url` against its description. Schemathesis stores its state in `folder`."""
    command = [
        str(pathlib.Path(sys.executable).parent / "schemathesis"),
        "--config-file",
        str(config),
        "run",
        f"{url}/api/openapi.json",
        "--header",
        header,
        "--phases=examples,coverage,fuzzing",
        f"--max-examples={examples}",
        "--seed=20260730",
        "--workers=1",
        "--request-timeout=30",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
    ]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    summary = re.findall(r"Test cases:\s+(.*)", ran.stdout)
    assert ran.returncode == 0, ran.stdout[-20000:] + ran.stderr[-2000:]
    assert summary, ran.stdout[-2000:]
    print(f"   schemathesis: {summary[0].strip()}")


def prometheus(text):
    """Checks the metrics line by line: types precede values, labels are complete."""
    types, n_values = {}, 0
    value = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})? ([-+.\dInfNae]+)$')
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} is declared twice"
            types[name] = kind
        elif not line.startswith("#"):
            read = value.match(line)
            assert read, line
            name = read[1]
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in types or types.get(base) in ("histogram", "summary"), line
            n_values += 1
    assert n_values > 20, text
