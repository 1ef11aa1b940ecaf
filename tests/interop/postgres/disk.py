"""Fills and frees the disk of the database of running services. Reads must continue, refusals must state the reason,
no acknowledged write may be lost, and no restart may be necessary.

    disk.py program address-of-database folder-on-the-disk command-that-controls-the-server…

The server exits if there is no space for its write-ahead log. Then the test restarts it.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from processes import Process, free_port, wait_until
from wire import call

FIRST = 1_700_000_000
ROWS_EACH = 200
# A disk that is larger than this was not set up for the test.
DISK_BYTES_MAX = 1 << 30
# Maximum number of writes until the disk is full. Writes use free pages first, and the log has files of
# 16 MiB.
TRIES_MAX = 300
# The outcome of /health is at most half a second old.
HEALTH_WITHIN_S = 2


def timestamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST + second))


class Service:
    """A service of the program."""

    def __init__(self, name, home, key, command):
        self.port, self.key = free_port(), key
        command = [*command, "--listen", f"127.0.0.1:{self.port}", "--data-dir", f"{home}/{name}"]
        self.process = Process(name, [*command, "--unlimited-loopback"], home)

    async def ask(self, method, path, body=None, headers=()):
        status, text = await call(self.port, self.key, method, path, body, headers)
        return status, json.loads(text) if text.startswith(("{", "[")) else text

    async def insert_named(self, dataset, number):
        name = [f"Idempotency-Key: {number}"]
        return await self.ask("POST", "/api/rows/bulk_insert/", batch(dataset, number), name)

    def print_log(self):
        print(f"== {self.process.name}\n{self.process.log.read_text()[-3000:]}", file=sys.stderr)

    async def is_full(self):
        return (await self.ask("GET", "/health"))[0] == 507

    async def is_healthy(self):
        return (await self.ask("GET", "/health"))[0] == 200

    async def refuse(self, method, path, body_of):
        """Sends requests until one is refused. Returns the number of acknowledged requests and the refusal."""
        for n in range(TRIES_MAX):
            status, answer = await self.ask(method, path, body_of(n))
            if status not in (200, 201):
                return n, status, answer
        raise AssertionError(f"{path}: nothing was refused")


def batch(dataset, number):
    seconds = range(number * ROWS_EACH, (number + 1) * ROWS_EACH)
    note = "x" * 500
    rows = [{"timestamp": timestamp(s), "values": {"value": s, "note": f"{s} {note}"}} for s in seconds]
    return {"dataset": dataset, "rows": rows}


def topic(number):
    settings = {"metadata": f"topic {number} " + "x" * 200, "dataset": "full", "column": "value"}
    # The horizon must exceed the submission window of seven one-minute blocks.
    return {**settings, "horizon_seconds": 600}


def create_key(program, database):
    command = [program, "keys", "create", "owner", "--json", "--database", database]
    return subprocess.run(command, capture_output=True, text=True)


def fill(folder):
    """Fills the disk, which must be a small disk that was set up for the test."""
    disk = os.statvfs(folder)
    is_small = disk.f_blocks * disk.f_frsize <= DISK_BYTES_MAX
    assert os.path.ismount(folder) and is_small, f"{folder} is no small disk"
    path = pathlib.Path(folder) / "filler"
    with open(path, "wb", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while filler.write(b"\0" * size) == size:
                    pass
            except OSError:
                pass
    return path


async def check_log(program, database, folder, home, control):
    """Fills the disk of the write-ahead log. The server exits, and the service must continue after its restart."""
    key = json.loads(create_key(program, database).stdout)["api_key"]
    service = Service("datasets", home, key, [program, "datasets", "serve", "--store", database])
    try:
        await wait_until(service.is_healthy, "the service responds")
        dataset = await create_dataset(service)
        filler = fill(folder)
        n_batches = 0
        insert = lambda: service.insert_named(dataset, n_batches)
        while (refusal := await insert())[0] == 201:
            n_batches += 1
            assert n_batches < TRIES_MAX, "nothing was refused"
        assert refusal[0] == 503, refusal
        status, health = await service.ask("GET", "/health")
        print(f"log full after {n_batches} batches: {refusal} {status} {health}")
        filler.unlink()
        await wait_until(lambda: starts(control), "the server runs")
        await wait_until(service.is_healthy, "the service is healthy again")
        # The insert that was refused may have been stored.
        status, answer = await insert()
        assert status == 201, answer
        assert await n_stored(service, dataset) == (n_batches + 1) * ROWS_EACH
        print(f"disk freed: {n_batches} batches acknowledged = stored, and writes continue")
    except BaseException:
        service.print_log()
        raise
    finally:
        service.process.kill()


def starts(control):
    """Starts the server if it is not running."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return any(subprocess.run([*control, what], **quiet).returncode == 0 for what in ("status", "start"))


async def check_data(program, database, folder, home):
    key = json.loads(create_key(program, database).stdout)["api_key"]
    os.environ["TRIPTYCH_API_KEY"] = key
    serve = [program, "datasets", "serve", "--store", database]
    datasets = Service("datasets", home, key, serve)
    serve = [program, "inference", "serve", "--store", database, "--head", "http://127.0.0.1:1"]
    serve += ["--datasets", f"http://127.0.0.1:{datasets.port}/api", "--block-time-ms", "60000"]
    inference = Service("inference", home, key, serve)
    services = [datasets, inference]
    try:
        for service in services:
            await wait_until(service.is_healthy, "a service responds")
        dataset = await create_dataset(datasets)
        status, answer = await datasets.ask("POST", "/api/rows/bulk_insert/", batch(dataset, 0))
        assert status == 201, answer
        filler = fill(folder)
        path = "/api/rows/bulk_insert/"
        n_batches, status, answer = await datasets.refuse("POST", path, lambda n: batch(dataset, n + 1))
        assert (status, "disk is full" in answer["error"]) == (507, True), (status, answer)
        await wait_until(datasets.is_full, "the service says that the disk is full", HEALTH_WITHIN_S)
        assert (await datasets.ask("GET", "/health"))[1]["database"] == "full"
        n_topics, status, answer = await inference.refuse("POST", "/api/v1/topics", topic)
        assert (status, answer["code"]) == (507, 8), (status, answer)
        await wait_until(inference.is_full, "the service says that the disk is full", HEALTH_WITHIN_S)
        made = [create_key(program, database)]
        while made[-1].returncode == 0 and len(made) < TRIES_MAX:
            made.append(create_key(program, database))
        assert "full" in made[-1].stderr, made[-1].stderr
        n_rows = (n_batches + 1) * ROWS_EACH
        assert await n_stored(datasets, dataset) == n_rows, "reads do not continue"
        assert len((await inference.ask("GET", "/api/v1/topics"))[1]["topics"]) >= min(n_topics, 1)
        print(f"disk full after {n_batches} batches, {n_topics} topics and {len(made) - 1} keys: {answer['message']}")
        filler.unlink()
        for service in services:
            await wait_until(service.is_healthy, "a service is healthy again")
        status, answer = await datasets.ask("POST", path, batch(dataset, n_batches + 1))
        assert status == 201, answer
        assert (await inference.ask("POST", "/api/v1/topics", topic(n_topics)))[0] == 200
        assert create_key(program, database).returncode == 0
        assert await n_stored(datasets, dataset) == n_rows + ROWS_EACH
        print(f"disk freed: {n_rows} rows acknowledged = stored, and writes continue")
    except BaseException:
        for service in services:
            service.print_log()
        raise
    finally:
        for service in services:
            service.process.kill()


async def create_dataset(service):
    columns = [{"name": "value", "dtype": "float"}, {"name": "note", "dtype": "string"}]
    status, created = await service.ask("POST", "/api/datasets/", {"name": "full", "columns": columns})
    assert status == 201, created
    return created["id"]


async def n_stored(datasets, dataset):
    path = f"/api/rows/bulk_download/?dataset={dataset}&output=csv"
    status, text = await datasets.ask("GET", path)
    assert status == 200, text
    return len(text.splitlines()) - 1


def main():
    with tempfile.TemporaryDirectory(prefix="interop-disk-") as home:
        program, database, folder, *control = sys.argv[1:]
        if folder.endswith("wal"):
            asyncio.run(check_log(program, database, folder, home, control))
        else:
            asyncio.run(check_data(program, database, folder, home))


main()
