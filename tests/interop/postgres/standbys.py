"""Reads from a standby of the database: with what callers have seen, without what was taken from them, and
while the primary is away.

    standbys.py program address-of-database folder-of-programs folder user…

`user…` is the command that runs another one as the user of the server.
"""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

from processes import Process, free_port, wait_until
from servers import Server
from wire import WITHIN_S, send

FIRST = 1_700_000_000
# Reads of each round: several of them go to each standby.
N_READS = 12
ROWS_MAX = 10_000
# Datasets that are written while no standby confirms commits: more than a service has connections.
N_WRITTEN = 24
# Downloads of a service and of a key at once at most, and the rows of one with the bytes of their texts: more
# in all than a connection holds, also compressed to half.
N_DOWNLOADS, N_DOWNLOADS_OF_KEY = 8, 4
DOWNLOADED_ROWS = 8000
TEXT_BYTES = 1000
# For longer than a service waits for a commit.
UNCONFIRMED_FOR_S = 50
# Commits that wait at once at most: a service leaves connections to reads. Some are the maintenance of all
# services.
WAITING_MAX = 12 + 4


def timestamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST + second))


# Of a topic whose values nobody infers.
TOPIC = {"metadata": "walk", "dataset": "shared", "column": "value", "horizon_seconds": 60}


class Service:
    """The program serving datasets, or inference, out of the database and its standby."""

    def __init__(
        self, name, program, database, standby, home, flags=("--unlimited-loopback",), room="datasets"
    ):
        self.port = free_port()
        command = [program, room, "serve", *flags, "--store", database, "--standby", standby]
        command += ["--data-dir", f"{home}/{name}", "--listen", f"127.0.0.1:{self.port}"]
        self.process = Process(name, command, home)

    async def call(self, key, method, path, body=None, headers=()):
        """The status, headers and text of the response; status 0 if there is none."""
        try:
            sent = send(self.port, key, method, path, body, headers)
            response = await asyncio.wait_for(sent, WITHIN_S)
            try:
                chunks = [chunk async for chunk in response.chunks()]
            finally:
                response.writer.close()
            return response.status, response.headers, b"".join(chunks).decode()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            return 0, {}, ""

    async def is_healthy(self):
        return (await self.call("", "GET", "/health"))[0] == 200

    async def health(self):
        status, _, text = await self.call("", "GET", "/health")
        return status, json.loads(text or "{}").get("status")

    async def is_well(self):
        return await self.health() == (200, "healthy")

    async def insert(self, key, dataset, second, name=None):
        rows = [{"timestamp": timestamp(second), "values": {"value": second}}]
        body = {"dataset": dataset, "rows": rows}
        headers = [f"Idempotency-Key: {name}"] if name else []
        return await self.call(key, "POST", "/api/rows/bulk_insert/", body, headers)

    async def page(self, key, dataset, seen=None):
        """The status, revision and values of a page of all rows."""
        path = f"/api/rows/?dataset={dataset}&start={timestamp(0)}&end={timestamp(80_000)}&limit={ROWS_MAX}"
        headers = [] if seen is None else [f"X-Revision: {seen}"]
        status, headers, text = await self.call(key, "GET", path, None, headers)
        if status != 200:
            return status, headers.get("retry-after"), []
        values = [int(row["values"]["value"]) for row in json.loads(text)["results"]]
        return status, int(headers["x-revision"]), values

    async def download(self, key, dataset, seen=None):
        """The status, revision and values of all rows at once."""
        headers = [] if seen is None else [f"X-Revision: {seen}"]
        path = f"/api/rows/bulk_download/?dataset={dataset}&output=csv"
        status, headers, text = await self.call(key, "GET", path, None, headers)
        if status != 200:
            return status, headers.get("retry-after"), []
        return status, int(headers["x-revision"]), [int(line.split(",")[1]) for line in text.split()[1:]]

    async def delete_rows(self, key, dataset, second):
        """The status and revision of a deletion of one row."""
        path = f"/api/rows/?dataset={dataset}&start={timestamp(second)}&end={timestamp(second)}"
        status, headers, _ = await self.call(key, "DELETE", path)
        return status, int(headers["x-revision"])

    def has_logged(self, text):
        return text in self.process.log.read_text()


class Check:
    """The servers and services, and what they have."""

    def __init__(self, program, database, primary, home):
        self.program, self.database, self.primary, self.home = program, database, primary, home
        self.name = database.rpartition("/")[2]
        self.owner, _ = self.create_key("owner")
        self.reader, self.reader_id = self.create_key("reader")
        self.standby = primary.standby(f"{primary.folder}-standby", free_port())
        standby = f"postgres://postgres@127.0.0.1:{self.standby.port}/{self.name}"
        self.one = Service("one", program, database, standby, home)
        self.other = Service("other", program, database, standby, home)
        # Its limits are those of everybody.
        self.limited = Service("limited", program, database, standby, home, ("--rate", "200", "--burst", "200"))
        self.services = [self.one, self.other, self.limited]
        os.environ["TRIPTYCH_API_KEY"] = self.owner
        flags = ("--unlimited-loopback", "--head", "http://127.0.0.1:1")
        flags += ("--datasets", f"http://127.0.0.1:{self.one.port}/api")
        self.inference = Service("inference", program, database, standby, home, flags, "inference")

    def create_key(self, name):
        command = [self.program, "keys", "create", name, "--json", "--database", self.database]
        made = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return made["api_key"], made["id"]

    async def start(self):
        for service in [*self.services, self.inference]:
            await wait_until(service.is_healthy, "a service responds")
            uses = lambda: service.has_logged("serves reads")
            await wait_until(uses, "a service has found the standby")
        self.dataset = await self.create("shared", ["team"])
        status, _, text = await self.give("POST")
        assert status in (200, 201), (status, text)

    async def create(self, name, tags=(), dtype="float", key=None):
        body = {"name": name, "columns": [{"name": "value", "dtype": dtype}], "tags": [*tags]}
        status, _, text = await self.one.call(key or self.owner, "POST", "/api/datasets/", body)
        assert status == 201, (status, text)
        return json.loads(text)["id"]

    def confirm_by(self, standbys):
        """Has commits wait for standbys, by their names."""
        self.primary.query(self.name, f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        self.primary.query(self.name, "SELECT pg_reload_conf()")

    async def give(self, method):
        path = "/api/tags/team/holders/" + ("" if method == "POST" else f"{self.reader_id}/")
        body = {"key": self.reader_id} if method == "POST" else None
        return await self.one.call(self.owner, method, path, body)

    async def insert(self, service, second):
        status, headers, text = await service.insert(self.owner, self.dataset, second)
        assert status == 201, (status, text)
        return int(headers["x-revision"])

    async def check_reads(self, service, want, seen=None):
        for _ in range(N_READS):
            status, revision, values = await service.page(self.owner, self.dataset, seen)
            assert (status, values) == (200, want), (status, revision, values, want)

    async def catch_up(self):
        """Waits until the standby has all, and the services know."""
        end = self.primary.query(self.name, "SELECT pg_current_wal_lsn()")
        has_all = lambda: self.standby.query(self.name, f"SELECT pg_last_wal_replay_lsn() >= '{end}'") == "t"
        await wait_until(has_all, "the standby has all")


async def check_seen(check):
    """What a caller has seen is in every page, whether the standby has it or not."""
    rows = list(range(20))
    for second in rows:
        await check.insert(check.one, second)
    await check.catch_up()
    await check.check_reads(check.one, rows)
    check.standby.query(check.name, "SELECT pg_wal_replay_pause()")
    revision = await check.insert(check.one, 20)
    rows.append(20)
    # It acknowledged the row itself.
    await check.check_reads(check.one, rows)
    status, before, values = await check.other.page(check.owner, check.dataset)
    assert (status, before, values) == (200, revision - 1, rows[:-1]), (status, before, revision, values)
    await check.check_reads(check.other, rows, revision)
    await check.check_reads(check.other, rows)
    status, _, _ = await check.one.page(check.owner, check.dataset, "many")
    assert status == 400, status
    # More than there is.
    await check.check_reads(check.one, rows, revision + 100)
    revision = await check.insert(check.one, 21)
    rows.append(21)
    # What it sent in a download is in its pages from then on.
    assert await check.other.download(check.owner, check.dataset) == (200, revision, rows)
    await check.check_reads(check.other, rows)
    assert await check.one.delete_rows(check.owner, check.dataset, 21) == (200, revision + 1)
    rows.pop()
    await check.check_reads(check.other, rows, revision + 1)
    print("a paused standby: pages have what their service acknowledged, and what X-Revision asks for")
    return rows


async def check_access(check):
    """A standby that is behind shows nobody what was taken from them."""
    status, _, _ = await check.other.page(check.reader, check.dataset)
    assert status == 200, status
    for service in check.services[:2]:
        assert (await service.page(check.reader, check.dataset))[0] == 200
    status, _, text = await check.give("DELETE")
    assert status in (200, 204), (status, text)
    for _ in range(N_READS):
        for service in check.services[:2]:
            status, _, _ = await service.page(check.reader, check.dataset)
            assert status == 404, f"{status} of a key whose tag was taken"
    print("a paused standby: a tag that was taken opens nothing")


async def check_paused_alone(check, rows):
    """A standby that lags does not stand in for the primary: it would show what was taken."""
    check.primary.control("stop", "--mode", "immediate")

    async def are_refused():
        pages = [await service.page(check.reader, check.dataset) for service in check.services[:2]]
        assert all(status in (404, 503) for status, _, _ in pages), pages
        return all(status == 503 and retry for status, retry, _ in pages)

    await wait_until(are_refused, "reads are refused while the standby lags and the primary is away")
    assert (await check.other.download(check.owner, check.dataset, 99))[0] == 503
    check.primary.control("start")
    for service in check.services:
        await wait_until(service.is_healthy, "a service is healthy again")
    check.standby.query(check.name, "SELECT pg_wal_replay_resume()")
    await check.catch_up()
    await check.check_reads(check.other, rows)
    print("a paused standby without the primary: reads are answered 503")


async def check_primary_lost(check, rows):
    """Reads go on from the standby while the primary is away, and writes as soon as it is back."""
    await asyncio.sleep(0.5)  # the services look at it four times a second and more
    check.primary.control("stop", "--mode", "immediate")
    began, n_failed = time.monotonic(), 0
    for service in check.services:
        while (await service.page(check.owner, check.dataset))[0] != 200:
            n_failed += 1
            assert time.monotonic() - began < WITHIN_S, "reads go on from the standby"
    took = time.monotonic() - began
    for service in check.services:
        await check.check_reads(service, rows)
        status, _, text = await service.call(check.owner, "GET", f"/api/rows/bulk_download/?dataset={check.dataset}&output=csv")
        assert (status, len(text.splitlines())) == (200, len(rows) + 1), (status, text)
        assert (await service.page(check.reader, check.dataset))[0] == 404, "what was taken stays so"
        assert (await service.call("UP-" + 24 * "0", "GET", "/api/datasets/"))[0] == 401
        assert await service.health() == (200, "degraded"), await service.health()
    status, headers, _ = await check.one.insert(check.owner, check.dataset, 30)
    assert (status, headers.get("retry-after")) == (503, "5"), (status, headers)
    pages = [check.limited.page(check.owner, check.dataset) for _ in range(120)]
    statuses = [status for status, _, _ in await asyncio.gather(*pages)]
    assert 429 in statuses and 200 in statuses, "each service lets in a part of the rate"
    check.primary.control("start")
    for service in check.services:
        await wait_until(service.is_well, "a service is healthy again")
    await check.insert(check.one, 30)
    await check.check_reads(check.one, [*rows, 30])
    print(f"primary lost: reads go on after {took:.1f} s ({n_failed} refused), writes are answered 503")
    return [*rows, 30]


async def check_inference(check):
    """Topics are read from the standby while the primary is away, and created as soon as it is back."""
    ask = lambda method, path, body=None: check.inference.call(check.owner, method, path, body)
    status, _, text = await ask("POST", "/api/v1/topics", TOPIC)
    assert status == 200, (status, text)
    topic = json.loads(text)["topic"]["id"]
    await check.catch_up()
    await asyncio.sleep(0.5)
    check.primary.control("stop", "--mode", "immediate")

    async def is_read_only():
        status, _, text = await ask("GET", "/health")
        return status == 200 and json.loads(text)["is_read_only"]

    await wait_until(is_read_only, "the inference service reads from the standby")
    status, _, text = await ask("GET", f"/emissions/v10/topics/{topic}")
    assert (status, json.loads(text)["topic"]["id"]) == (200, topic), (status, text)
    assert (await check.inference.call("UP-" + 24 * "0", "GET", "/api/v1/topics"))[0] == 401
    status, headers, text = await ask("POST", "/api/v1/topics", TOPIC)
    assert (status, "retry-after" in headers) == (503, True), (status, headers, text)
    check.primary.control("start")

    async def is_created():
        return (await ask("POST", "/api/v1/topics", TOPIC))[0] == 200

    await wait_until(is_created, "a topic is created once the primary is back")
    assert not await is_read_only(), "writes are back"
    for service in check.services:
        await wait_until(service.is_well, "a service is healthy again")
    print("primary lost: an inference service reads topics from the standby, and writes once it is back")


async def check_standby_lost(check, rows):
    """A standby that is killed costs no read."""
    await check.catch_up()
    check.standby.control("stop", "--mode", "immediate")
    for service in check.services[:2]:
        await check.check_reads(service, rows)
    check.standby.control("start", "--options", f"-c port={check.standby.port}")
    await check.catch_up()
    await wait_until(lambda: check.one.process.log.read_text().count("serves reads") > 1, "it is used again")
    await check.check_reads(check.one, rows)
    print("standby lost: no read failed, and it is used again")


async def insert_until_stored(check, dataset, second):
    """Inserts a row under a name until that is acknowledged; how often it was refused meanwhile."""
    n_refused = 0
    while True:
        status, headers, text = await check.one.insert(check.owner, dataset, second, f"{dataset}-{second}")
        if status == 201:
            return n_refused
        assert (status, "retry-after" in headers) == (503, True), (status, headers, text)
        n_refused += 1
        await asyncio.sleep(0.2)


async def stall_downloads(check):
    """Begins as many downloads as a service has at once, whose readers read nothing."""
    downloads = []
    for number in range(N_DOWNLOADS // N_DOWNLOADS_OF_KEY):
        key, _ = check.create_key(f"downloader {number}")
        dataset = await check.create(f"downloaded {number}", key=key, dtype="string")
        texts = [random.randbytes(TEXT_BYTES // 2).hex() for _ in range(DOWNLOADED_ROWS)]
        rows = [{"timestamp": timestamp(n), "values": {"value": text}} for n, text in enumerate(texts)]
        body = {"dataset": dataset, "rows": rows}
        status, _, text = await check.one.call(key, "POST", "/api/rows/bulk_insert/", body)
        assert status == 201, (status, text)
        path = f"/api/rows/bulk_download/?dataset={dataset}&output=csv"
        for _ in range(N_DOWNLOADS_OF_KEY):
            # Compressed text is sent as it is read. Other text of this length is spooled first.
            headers = ["Accept-Encoding: gzip"]
            downloads.append(await send(check.one.port, key, "GET", path, None, headers, is_narrow=True))
            assert downloads[-1].status == 200, downloads[-1].status
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    are_open = lambda: check.primary.query(check.name, open_ones) == str(N_DOWNLOADS)
    await wait_until(are_open, "each download has a connection")
    return downloads


async def check_unconfirmed(check):
    """While no standby confirms commits, nothing is acknowledged; reads go on, and neither the service nor
    the server runs out of connections. Then all is stored once."""
    datasets = [await check.create(f"written {n}") for n in range(N_WRITTEN)]
    for dataset in datasets:
        assert await insert_until_stored(check, dataset, 0) == 0
    await check.catch_up()
    check.confirm_by("*")
    await check.insert(check.one, 31)
    downloads = await stall_downloads(check)
    check.standby.control("stop", "--mode", "immediate")
    # Rows that are new, and rows that are stored, whose senders have no answer yet.
    seconds = [(dataset, second) for second in (1, 0) for dataset in datasets]
    inserts = [asyncio.create_task(insert_until_stored(check, *insert)) for insert in seconds]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    began, n_waiting, n_reads = time.monotonic(), 0, 0
    while time.monotonic() - began < UNCONFIRMED_FOR_S:
        reads = [check.one.page(check.owner, dataset) for dataset in datasets]
        pages = await asyncio.gather(*reads)
        assert all(status == 200 for status, _, _ in pages), f"reads go on: {pages}"
        n_reads += len(pages)
        status = await check.one.health()
        assert status == (200, "healthy"), status
        n_waiting = max(n_waiting, int(check.primary.query(check.name, waiting)))
        assert n_waiting <= WAITING_MAX, f"{n_waiting} connections of the server wait for a standby"
        assert not any(insert.done() for insert in inserts), "an insert was acknowledged without a standby"
        await asyncio.sleep(0.2)
    check.standby.control("start", "--options", f"-c port={check.standby.port}")
    n_refused = sum(await asyncio.gather(*inserts))
    for download in downloads:
        download.writer.close()
    for dataset in datasets:
        page = await check.one.page(check.owner, dataset)
        assert page == (200, 2, [0, 1]), f"each is stored once: {page}"
    check.confirm_by("")
    print(
        f"no standby confirms: {n_waiting} commits waited, {n_refused} inserts were refused, {n_reads} reads"
        " were served"
    )


async def run(check):
    await check.start()
    rows = await check_seen(check)
    await check_access(check)
    await check_paused_alone(check, rows)
    rows = await check_primary_lost(check, rows)
    await check_inference(check)
    await check_standby_lost(check, rows)
    await check_unconfirmed(check)


def main():
    program, database, programs, folder, *as_user = sys.argv[1:]
    port = int(re.search(r":(\d+)/", database)[1])
    primary = Server(programs, f"{folder}/data", port, as_user)
    with tempfile.TemporaryDirectory(prefix="interop-standbys-") as home:
        check = Check(program, database, primary, home)
        try:
            asyncio.run(run(check))
        except BaseException:
            for service in [*check.services, check.inference]:
                log = service.process.log.read_text()
                print(f"== {service.process.name}\n{log[-3000:]}", file=sys.stderr)
            raise
        finally:
            for service in [*check.services, check.inference]:
                service.process.kill()
            check.standby.control("stop", "--mode", "immediate")


main()
