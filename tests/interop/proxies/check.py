"""Checks that caches do not pass responses for one key to other clients, and that proxies pass events to their
readers immediately: Varnish and nginx with default settings, HAProxy and nginx as in the guide."""

import contextlib
import http.client
import json
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

WITHIN_S = 60
GUIDE = pathlib.Path(__file__).parents[3] / "assets/operate.txt"
# Maximum number of concurrent requests that the service accepts from one network. A client opens more.
NETWORK_MAX = 4096 // 4
N_SLOW = NETWORK_MAX + 200
STEP = "2024-01-01T00:%02d:%02dZ"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(port, method, path, key=None, body=None, headers=()):
    """Returns status, headers and body of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    sent = dict(headers) | ({"X-API-Key": key} if key else {})
    data = None if body is None else json.dumps(body)
    with contextlib.closing(connection):
        connection.request(method, path, body=data, headers=sent)
        response = connection.getresponse()
        return response.status, response.headers, response.read()


class Setup:
    """The service and the proxies in front of it."""

    def __init__(self, program, home):
        self.program, self.home = program, pathlib.Path(home)
        self.port, self.processes = free_port(), []

    def run(self, name, *command):
        log = open(self.home / f"{name}.log", "a")
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)

    def wait_for(self, port):
        end = time.monotonic() + WITHIN_S
        while True:
            try:
                status, *_ = call(port, "GET", "/health")
                if status == 200:
                    return port
            except (OSError, http.client.HTTPException):
                pass
            assert time.monotonic() < end, f"port {port} is not healthy: see {self.home}"
            time.sleep(0.05)

    def key(self, name):
        command = [self.program, "keys", "create", name, "--json", "--data-dir", str(self.home)]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return json.loads(made)["api_key"]

    def serve(self):
        self.owner, self.other = self.key("owner"), self.key("other")
        self.run(
            "service", self.program, "datasets", "serve", "--data-dir", str(self.home),
            "--listen", f"127.0.0.1:{self.port}", "--behind-proxy", "--rate", "100000", "--burst", "100000",
        )
        self.wait_for(self.port)
        columns = [{"name": "a", "dtype": "float"}]
        self.private = self.create({"name": "private", "columns": columns})
        for dataset in (self.private,):
            self.insert(dataset, 0)

    def create(self, dataset):
        status, _, body = call(self.port, "POST", "/api/datasets/", self.owner, dataset)
        assert status == 201, body
        return json.loads(body)["id"]

    def insert(self, dataset, n):
        row = {"timestamp": STEP % divmod(n, 60), "values": {"a": n}}
        body = {"dataset": dataset, "rows": [row]}
        status, _, answer = call(self.port, "POST", "/api/rows/bulk_insert/", self.owner, body)
        assert status == 201, answer

    def varnish(self):
        port = free_port()
        self.run(
            "varnish", "varnishd", "-F", "-j", "none", "-n", str(self.home / "varnish"),
            "-b", f"127.0.0.1:{self.port}", "-a", f"127.0.0.1:{port}", "-s", "malloc,16m",
        )
        return self.wait_for(port)

    def nginx(self, name, location, before=""):
        """Starts nginx with default settings and the given locations."""
        port, folder = free_port(), self.home / name
        folder.mkdir()
        paths = "\n".join(
            f"{kind}_temp_path {folder}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\nerror_log {folder}/error.log;\npid {folder}/pid;\n"
            f"events {{ worker_connections 4000; }}\nhttp {{\naccess_log off;\n{paths}\n{before}\n"
            f"server {{ listen 127.0.0.1:{port};\n{location}\n}}\n}}\n"
        )
        self.run(name, "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"))
        return self.wait_for(port)

    def haproxy(self):
        """Starts HAProxy as in the guide with one service on a free port."""
        port = free_port()
        config = guide_part("defaults", "server two")
        config = config.replace("bind :8081", f"bind 127.0.0.1:{port}")
        config = config.replace("10.0.0.1:8081", f"127.0.0.1:{self.port}")
        assert f"127.0.0.1:{self.port}" in config, config
        (self.home / "haproxy.cfg").write_text(config)
        self.run("haproxy", "haproxy", "-db", "-f", str(self.home / "haproxy.cfg"))
        return self.wait_for(port)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def guide_part(first, behind):
    """Returns lines of the guide: from a line that begins with `first` to a line that begins with `behind`."""
    lines = GUIDE.read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if line.strip().startswith(first))
    end = next(n for n in range(begin, len(lines)) if lines[n].strip().startswith(behind))
    return textwrap.dedent("\n".join(lines[begin:end])) + "\n"


def check_private(setup, port, name):
    """Checks that no client gets a response for another key."""
    dataset = setup.private
    for path in (
        f"/api/rows/?dataset={dataset}&start=2024-01-01T00:00:00Z",
        f"/api/rows/live/?dataset={dataset}",
        f"/api/rows/bulk_download/?dataset={dataset}&output=csv",
        f"/api/datasets/{dataset}/",
    ):
        for key, want in ((setup.owner, 200), (setup.other, 404), (None, 401), (setup.owner, 200)) * 2:
            status, _, body = call(port, "GET", path, key)
            assert status == want, f"{name}: {path}: {status} for {want}: {body[:200]}"
    bearer = {"Authorization": f"Bearer {setup.owner}"}
    for headers, want in ((bearer, 200), ({}, 401)) * 2:
        status, *_ = call(port, "GET", f"/api/rows/live/?dataset={dataset}&limit=2", headers=headers)
        assert status == want, f"{name}: {status} for {want}"
    print(f"ok  {name}: private rows reach only their key")


def check_stream(setup, port, name, next_row):
    """Checks that each event arrives before the next one is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    path = f"/api/rows/stream/?dataset={setup.private}"
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"X-API-Key": setup.owner})
        response = connection.getresponse()
        assert response.status == 200, response.read()

        def read_event():
            lines = []
            while line := response.readline().strip():
                lines.append(line.decode())
            return lines

        assert read_event()[0] == "event: connected"
        delays = []
        for n in range(next_row, next_row + 10):
            sent_at = time.monotonic()
            setup.insert(setup.private, n)
            while True:
                event = read_event()
                if event[0] == "event: data" and json.loads(event[1][6:])["a"] == n:
                    break
            delays.append(time.monotonic() - sent_at)
    median_ms = sorted(delays)[len(delays) // 2] * 1000
    print(f"ok  {name}: events are not buffered: {median_ms:.1f} ms from insert to event")
    return next_row + 10


def check_slow_bodies(setup):
    """Checks that endless bodies from one network do not occupy the connections of others."""
    request = (
        "POST /api/accounts/log_in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n{"
    ).encode()
    held = []
    try:
        for _ in range(N_SLOW):
            connection = socket.create_connection(("127.0.0.1", setup.port), WITHIN_S)
            connection.sendall(request)
            held.append(connection)
        status, *_ = call(setup.port, "GET", "/health")
        assert status == 200, f"health: {status}"
        other = {"X-Forwarded-For": "198.51.100.1"}
        status, *_ = call(setup.port, "GET", "/api/tags/", setup.other, headers=other)
        assert status == 200, f"another network: {status}"
        statuses = [connection.recv(4096).split()[1].decode() for connection in held]
    finally:
        for connection in held:
            connection.close()
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    assert set(counts) == {"408", "503"} and counts["408"] <= NETWORK_MAX, counts
    print(f"ok  slow bodies: {counts['503']} over the limit of a network get 503, {counts['408']} get 408")


def main(program):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="interop-proxies-") as home:
        setup = Setup(program, home)
        try:
            setup.serve()
            to_service = f"proxy_pass http://127.0.0.1:{setup.port};"
            cache = f"proxy_cache_path {home}/cache keys_zone=all:1m;"
            caching = setup.nginx("nginx-cache", f"location / {{ {to_service} proxy_cache all; }}", cache)
            plain = setup.nginx("nginx", f"location / {{ {to_service} }}")
            varnish, haproxy = setup.varnish(), setup.haproxy()
            for name, port in (("Varnish", varnish), ("nginx with a cache", caching), ("HAProxy", haproxy)):
                check_private(setup, port, name)
            row = 1
            for name, port in (
                ("no proxy", setup.port), ("nginx by default", plain), ("nginx with a cache", caching),
                ("HAProxy as the guide has it", haproxy),
            ):
                row = check_stream(setup, port, name, row)
            check_slow_bodies(setup)
        finally:
            setup.end()


main(sys.argv[1])
