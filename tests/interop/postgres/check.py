"""Loses the database under writers, and shows that what was acknowledged is stored and streamed.

    check.py program address-of-database folder command-that-controls-the-server…
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from processes import create_key, free_port

STARTS_WITHIN_S = 60
N_DATASETS = 3
WRITERS_EACH = 4
ROWS_EACH = 20
# Batches that each writer gets through after the server was lost for the last time.
BATCHES_AFTER = 30


class Service:
    """The program serving datasets out of the database."""

    def __init__(self, program, database, folder):
        self.command = [program, "datasets", "serve", "--unlimited-loopback", "--store", database]
        self.key = create_key(program, database)
        self.log_path = pathlib.Path(folder) / "log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [*self.command, "--data-dir", folder, "--listen", f"127.0.0.1:{self.port}"]
        log = open(self.log_path, "a")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.call("GET", "/health")[0] == 200, "the service responds")

    def call(self, method, path, body=None):
        """The status, headers and text of the response; status 0 if there is none."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("X-API-Key", self.key)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return 0, {}, ""

    def create(self, name):
        columns = [{"name": "value", "dtype": "float"}]
        status, _, text = self.call("POST", "/api/datasets/", {"name": name, "columns": columns})
        assert status in (200, 201), (status, text)
        return json.loads(text)["id"]


def wait_until(is_so, what):
    end = time.monotonic() + STARTS_WITHIN_S
    while not is_so():
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.05)


class Writer(threading.Thread):
    """Inserts batches of rows with timestamps of its own, and tries again what was refused."""

    def __init__(self, service, dataset, place, stop):
        super().__init__(daemon=True)
        self.service, self.dataset, self.place, self.stop = service, dataset, place, stop
        self.acknowledged, self.n_batches, self.n_refused, self.fault = [], 0, 0, None

    def run(self):
        try:
            while not self.stop.is_set():
                self.batch()
        except Exception as fault:  # reported by the main thread
            self.fault = repr(fault)

    def batch(self):
        first = self.n_batches * ROWS_EACH
        seconds = [(first + n) * WRITERS_EACH + self.place for n in range(ROWS_EACH)]
        rows = [{"timestamp": timestamp(second), "values": {"value": second}} for second in seconds]
        body = {"dataset": self.dataset, "rows": rows}
        while True:
            status, headers, text = self.service.call("POST", "/api/rows/bulk_insert/", body)
            if status in (200, 201):
                break
            assert status == 503, f"{status} {text}"
            assert headers["Retry-After"], "a client learns when to try again"
            self.n_refused += 1
            time.sleep(0.1)
        self.acknowledged += seconds
        self.n_batches += 1


def timestamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + second))


class Reader(threading.Thread):
    """Follows a dataset, and connects again where its stream ends."""

    def __init__(self, service, dataset):
        super().__init__(daemon=True)
        self.service, self.dataset, self.seen = service, dataset, set()
        self.last_id = None

    def run(self):
        while True:
            request = urllib.request.Request(
                f"{self.service.url}/api/rows/stream/?dataset={self.dataset}"
            )
            request.add_header("X-API-Key", self.service.key)
            if self.last_id:
                request.add_header("Last-Event-ID", self.last_id)
            try:
                with urllib.request.urlopen(request, timeout=60) as stream:
                    for line in stream:
                        self.line(line.decode().rstrip("\n"))
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)

    def line(self, line):
        if line.startswith("id: "):
            self.last_id = line[4:]
        if line.startswith("event: "):
            assert line != "event: reset", "the stream goes on where it ended"
        if line.startswith("data: ") and '"value"' in line:
            self.seen.add(int(json.loads(line[6:])["value"]))


def stored(service, dataset):
    """The values of all rows."""
    path = f"/api/rows/bulk_download/?dataset={dataset}&output=csv"
    status, _, text = service.call("GET", path)
    assert status == 200, (status, text)
    header, *lines = text.splitlines()
    column = header.split(",").index("value")
    found = [int(float(line.split(",")[column])) for line in lines]
    assert len(found) == len(set(found)), "no row twice"
    return set(found)


def main():
    program, database, folder, *control = sys.argv[1:]
    data = pathlib.Path(folder) / "data"
    with tempfile.TemporaryDirectory(prefix="interop-postgres-") as home:
        service = Service(program, database, home)
        try:
            check(service, data, control)
        except BaseException:
            print(service.log_path.read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            service.process.kill()
            service.process.wait()


def lose(how, data, control):
    """Ends the server, leaves it away for a while, and starts it again."""
    if how == "killed":
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        # Its processes end when they notice, and the port is free then.
        time.sleep(1)
    else:
        subprocess.run([*control, "stop", "--mode", how], check=True, stdout=subprocess.DEVNULL)
    # Once for longer than a request waits for a connection.
    time.sleep(7 if how == "fast" else 1)
    started = subprocess.DEVNULL
    for _ in range(20):
        if subprocess.run([*control, "start"], stdout=started).returncode == 0:
            return
        time.sleep(0.5)
    raise AssertionError("the server did not start again")


def pause(service, data):
    """Has the server hang: requests wait some seconds for it until that is known, and then no more."""
    pid = (data / "postmaster.pid").read_text().splitlines()[0]
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in [pid, *children]:
        os.kill(int(one), signal.SIGSTOP)
    paused = time.monotonic()
    n_known = 0
    while n_known < 3:
        began = time.monotonic()
        # Accounts and rows have connections of their own, which notice it by themselves.
        is_known = began - paused > 20
        status, headers, text = service.call("GET", "/api/datasets/")
        took_s = time.monotonic() - began
        assert status == 503 and "Retry-After" in headers, (status, text)
        assert took_s < (2 if is_known else 10), f"503 after {took_s:.1f} s"
        print(f"a server that hangs for {began - paused:.1f} s: 503 after {took_s:.1f} s")
        assert service.call("GET", "/health")[0] == 503
        n_known += is_known
    for one in [pid, *children]:
        os.kill(int(one), signal.SIGCONT)


def check(service, data, control):
    datasets = [service.create(f"lost {n}") for n in range(N_DATASETS)]
    stop = threading.Event()
    readers = {dataset: Reader(service, dataset) for dataset in datasets}
    for reader in readers.values():
        reader.start()
    writers = [
        Writer(service, dataset, place, stop) for dataset in datasets for place in range(WRITERS_EACH)
    ]
    for writer in writers:
        writer.start()
    for how in ["killed", "fast", "paused", "immediate", "killed"]:
        wanted = [writer.n_batches + 10 for writer in writers]
        wait_until(
            lambda: all(w.n_batches >= n or w.fault for w, n in zip(writers, wanted)), "writers go on"
        )
        n_refused = sum(writer.n_refused for writer in writers)
        pause(service, data) if how == "paused" else lose(how, data, control)
        wait_until(lambda: service.call("GET", "/health")[0] == 200, "the service is healthy again")
        refused = sum(writer.n_refused for writer in writers) - n_refused
        print(f"server lost ({how}): {refused} inserts were answered 503 and sent again")
    wanted = [writer.n_batches + BATCHES_AFTER for writer in writers]
    wait_until(
        lambda: all(w.n_batches >= n or w.fault for w, n in zip(writers, wanted)), "writers go on"
    )
    stop.set()
    for writer in writers:
        writer.join(60)
        assert writer.fault is None, writer.fault
    for dataset in datasets:
        acknowledged = {
            second for w in writers if w.dataset == dataset for second in w.acknowledged
        }
        found = stored(service, dataset)
        lost = acknowledged - found
        assert not lost, f"dataset {dataset}: {len(lost)} acknowledged rows are lost"
        assert found == acknowledged, f"dataset {dataset}: {len(found - acknowledged)} rows more"
        reader = readers[dataset]
        wait_until(
            lambda: acknowledged <= reader.seen,
            f"dataset {dataset}: {len(acknowledged - reader.seen)} rows are not streamed",
        )
        print(f"dataset {dataset}: {len(acknowledged)} rows acknowledged = stored = streamed")


main()
