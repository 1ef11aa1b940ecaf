"""A dataset service that can be killed and restarted."""

import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import requests

STARTS_WITHIN_S = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Service:
    """A dataset service with the same port and data directory over restarts."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory(prefix="interop-datasets-")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.options = []
        self.owner = self.key("owner")
        self.reader = self.key("reader")

    def key(self, name):
        """Creates an API key."""
        command = [self.program, "keys", "create", name, "--data-dir", self.folder.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        at = told.index("UP-")
        return told[at : at + 27]

    def start(self):
        """Starts the service, and waits until it responds."""
        command = [self.program, "datasets", "serve", "--data-dir", self.folder.name]
        command += ["--listen", f"127.0.0.1:{self.port}", *self.unlimited(), *self.options]
        log = open(pathlib.Path(self.folder.name) / "log", "a")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                health = requests.get(f"{self.url}/health", timeout=5)
                health.raise_for_status()
                return health.json()
            except requests.RequestException:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(f"the service did not start:\n{self.log()[-2000:]}") from None
                time.sleep(0.02)

    def unlimited(self):
        """Returns the option that disables limits for local clients, if the program has it."""
        command = [self.program, "datasets", "serve", "--help"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return ["--unlimited-loopback"] if "--unlimited-loopback" in told else []

    def kill(self):
        """Kills the service."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        """Stops the service."""
        self.kill()

    def log(self):
        return (pathlib.Path(self.folder.name) / "log").read_text()

    def call(self, method, path, key=None, **options):
        headers = {"X-API-Key": key or self.reader} | options.pop("headers", {})
        return requests.request(method, self.url + path, headers=headers, timeout=60, **options)

    def get(self, path, **params):
        answer = self.call("GET", path, params=params)
        assert answer.status_code == 200, f"{path} {params}: {answer.status_code} {answer.text}"
        return answer

    def post(self, path, body, status=(200, 201)):
        answer = self.call("POST", path, key=self.owner, json=body)
        assert answer.status_code in status, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def create(self, name, columns, **more):
        """Creates a dataset that both keys can read, and returns its id."""
        listed = [{"name": column, "dtype": dtype} for column, dtype in columns.items()]
        return self.post("/api/datasets/", {"name": name, "columns": listed, "tags": ["public"], **more})["id"]

    def insert(self, dataset, rows):
        """Inserts flat rows."""
        body = []
        for row in rows:
            values = {name: value for name, value in row.items() if name != "timestamp" and value is not None}
            body.append({"timestamp": row["timestamp"], "values": values})
        for first in range(0, len(body), 5_000):
            self.post("/api/rows/bulk_insert/", {"dataset": dataset, "rows": body[first : first + 5_000]})

    def acquire(self):
        """Grants both keys access to public datasets. Can be repeated."""
        for key in (self.owner, self.reader):
            told = self.call("POST", "/api/tags/acquire/", key=key, json={"tag_name": "public"})
            assert told.status_code in (200, 201, 409), told.text


def moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line]
