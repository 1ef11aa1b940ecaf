"""Writers and readers of datasets, which go on while parts are lost, and what must hold afterwards."""

import asyncio
import json
import re
import time

from processes import wait_until
from wire import call, send

WRITERS_EACH = 4
ROWS_EACH = 5
# Between two batches of a writer: as fast as this test's readers can read.
WRITES_EVERY_S = 0.1
FIRST = 1_700_000_000
EVENT = re.compile(rb"data: ([^\n]*)\nid: ([^\n]*)\n")


def timestamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST + second))


class Writer:
    """Inserts batches of rows with timestamps of its own."""

    def __init__(self, port, key, dataset, place):
        self.port, self.key, self.dataset, self.place = port, key, dataset, place
        self.acknowledged, self.n_batches, self.n_refused = [], 0, 0

    async def run(self, stop):
        while not stop.is_set():
            first = self.n_batches * ROWS_EACH
            seconds = [(first + n) * WRITERS_EACH + self.place + 1 for n in range(ROWS_EACH)]
            await self.insert(seconds)
            self.n_batches += 1
            await asyncio.sleep(WRITES_EVERY_S)

    async def insert(self, seconds):
        """Inserts rows, and tries again until they are acknowledged."""
        rows = [{"timestamp": timestamp(second), "values": {"value": second}} for second in seconds]
        body = {"dataset": self.dataset, "rows": rows}
        while True:
            status, text = await call(self.port, self.key, "POST", "/api/rows/bulk_insert/", body)
            if status in (200, 201):
                break
            assert status in (0, 502, 503, 504), f"{status} {text}"
            self.n_refused += 1
            await asyncio.sleep(0.1)
        self.acknowledged += seconds


class Reader:
    """Follows a dataset, and connects again where its stream ends."""

    def __init__(self, port, key, dataset):
        self.port, self.key, self.dataset = port, key, dataset
        self.last_id, self.last_number, self.numbers, self.seen = None, 0, set(), set()
        self.n_connections = 0

    async def run(self):
        while True:
            headers = [f"Last-Event-ID: {self.last_id}"] if self.last_id else []
            path = f"/api/rows/stream/?dataset={self.dataset}"
            try:
                response = await send(self.port, self.key, "GET", path, None, headers)
                try:
                    if response.status == 200:
                        self.n_connections += 1
                        await self.follow(response)
                finally:
                    response.writer.close()
            except (OSError, ValueError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(0.2)

    async def follow(self, response):
        text = b""
        async for chunk in response.chunks():
            text += chunk
            events, _, text = text.rpartition(b"\n\n")
            assert b"event: reset" not in events, "a stream goes on where it ended"
            for data, cursor in EVENT.findall(events + b"\n"):
                number = int(cursor.rpartition(b"-")[2])
                assert number > self.last_number, f"row {number} comes after {self.last_number}"
                self.last_id, self.last_number = cursor.decode(), number
                self.numbers.add(number)
                self.seen.add(int(json.loads(data)["value"]))


async def stored(servers, dataset):
    """The rows that are stored: their values by their numbers."""
    path = f"/api/rows/?dataset={dataset}&start={timestamp(-9)}&end={timestamp(86400)}&limit=10000"
    status, text = await call(servers.port, servers.key, "GET", path)
    assert status == 200, (status, text)
    page = json.loads(text)
    assert page["next"] is None, "all rows are in one page"
    return {row["id"]: int(row["values"]["value"]) for row in page["results"]}


async def create(servers, name):
    columns = [{"name": "value", "dtype": "float"}]
    body = {"name": name, "columns": columns}
    status, text = await call(servers.port, servers.key, "POST", "/api/datasets/", body)
    assert status == 201, (status, text)
    return json.loads(text)["id"]


async def check_dataset(servers, dataset, writers, readers):
    acknowledged = {second for writer in writers for second in writer.acknowledged}
    rows = await stored(servers, dataset)
    assert len(rows) == len(set(rows.values())), "no row is stored twice"
    lost = acknowledged - set(rows.values())
    assert not lost, f"dataset {dataset}: {len(lost)} acknowledged rows are lost"
    assert set(rows.values()) == acknowledged, f"dataset {dataset}: there are rows more"
    have_all = lambda: all(rows.keys() <= reader.numbers for reader in readers)
    await wait_until(have_all, f"dataset {dataset}: all readers have all rows")
    assert all(reader.seen == acknowledged for reader in readers), "no reader has other rows"
    n_connections = sum(reader.n_connections for reader in readers)
    print(
        f"dataset {dataset}: {len(acknowledged)} rows acknowledged = stored = streamed, in order, to"
        f" {len(readers)} readers over {n_connections} connections"
    )
