"""Writers and readers of datasets that continue during failures, and checks of the result."""

import asyncio
import collections
import json
import random
import re
import time

from processes import WITHIN_S, wait_until
from wire import call, send

N_DATASETS = 3
READERS_EACH = 100
STALLING_READERS_EACH = 3
# Maximum pause of slow readers. A service does not buffer commits for them that long.
STALL_S = 30
WRITERS_EACH = 4
ROWS_EACH = 5
# Pause of a writer between two batches, so that the readers can keep up.
WRITES_EVERY_S = 0.1
# Number of batches that each writer stores between two failures.
BATCHES_BETWEEN = 8
# Number of rows in a page.
PAGE_ROWS = 10_000
FIRST = 1_700_000_000
EVENT = re.compile(rb"data: ([^\n]*)\nid: ([^\n]*)\n")


def timestamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST + second))


class Writer:
    """Inserts batches of rows with timestamps that no other writer uses. Every second writer sends idempotency
    keys, so that retried batches are stored once. Retried rows of the others replace themselves. One writer
    sends each batch to two services at the same time."""

    def __init__(self, services, dataset, place):
        self.services, self.dataset, self.place = services, dataset, place
        self.is_naming, self.is_doubling = place % 2 == 0, place == 2
        self.acknowledged, self.n_batches, self.n_refused, self.longest_s = [], 0, 0, 0
        self.refusals = collections.Counter()

    async def run(self, stop, every_s):
        while not stop.is_set():
            first = self.n_batches * ROWS_EACH
            seconds = [(first + n) * WRITERS_EACH + self.place + 1 for n in range(ROWS_EACH)]
            await self.insert(seconds)
            self.n_batches += 1
            await asyncio.sleep(every_s)

    async def insert(self, seconds):
        """Inserts rows, and retries until they are acknowledged."""
        rows = [{"timestamp": timestamp(second), "values": {"value": second}} for second in seconds]
        body = {"dataset": self.dataset, "rows": rows}
        name = [f"Idempotency-Key: {self.dataset}-{seconds[0]}"] if self.is_naming else []
        began, services, path = time.monotonic(), self.services, "/api/rows/bulk_insert/"
        acknowledgements = set()
        while not acknowledgements:
            ports = random.sample(services.ports, 2) if self.is_doubling else [services.port]
            calls = [call(port, services.key, "POST", path, body, name) for port in ports]
            for status, text in await asyncio.gather(*calls):
                if status in (200, 201):
                    acknowledgements.add(text)
                    continue
                # The batch is either being stored, or has been stored by a server whose response was
                # late.
                is_under_way = status == 409 and "is in progress" in text
                assert status in (0, 502, 503, 504) or is_under_way, f"{status} {text}"
                self.refusals[(status, text)] += 1
                self.n_refused += 1
            await asyncio.sleep(0 if acknowledgements else 0.1)
        assert len(acknowledgements) == 1, acknowledgements
        self.acknowledged += seconds
        self.longest_s = max(self.longest_s, time.monotonic() - began)


class Reader:
    """Follows a dataset, and reconnects after the end of its stream."""

    is_stalling = False

    def __init__(self, services, dataset, stop):
        self.services, self.dataset, self.stop = services, dataset, stop
        # The rows received so far: the last id, their numbers and their values.
        self.last_id, self.numbers, self.values = None, [], []
        self.n_connections, self.longest_gap_s, self.read_at = 0, 0, None

    async def run(self):
        path = f"/api/rows/stream/?dataset={self.dataset}"
        while True:
            headers = [f"Last-Event-ID: {self.last_id}"] if self.last_id else []
            try:
                response = await self.send(path, headers)
                try:
                    if response.status == 200:
                        self.n_connections += 1
                        await self.follow(response)
                finally:
                    response.writer.close()
            except (OSError, ValueError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(0.2)

    async def send(self, path, headers):
        return await send(self.services.port, self.services.key, "GET", path, None, headers)

    async def pause(self):
        """Pauses between two reads."""

    async def follow(self, response):
        text = b""
        async for chunk in response.chunks():
            await self.pause()
            text += chunk
            events, _, text = text.rpartition(b"\n\n")
            assert b"event: reset" not in events, "a stream did not resume"
            for data, cursor in EVENT.findall(events + b"\n"):
                number = int(cursor.rpartition(b"-")[2])
                last = self.numbers[-1] if self.numbers else 0
                assert number > last, f"row {number} comes after {last}"
                self.last_id = cursor.decode()
                self.numbers.append(number)
                self.values.append(int(json.loads(data)["value"]))
                self.note_time()

    def note_time(self):
        now = time.monotonic()
        if self.read_at:
            self.longest_gap_s = max(self.longest_gap_s, now - self.read_at)
        self.read_at = now


class StallingReader(Reader):
    """A reader that pauses for long, and connects to any of the services."""

    is_stalling = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stall_at = 0

    async def send(self, path, headers):
        port = random.choice(self.services.ports)
        return await send(port, self.services.key, "GET", path, None, headers, is_narrow=True)

    async def pause(self):
        if not self.last_id or time.monotonic() < self.stall_at:
            return
        try:
            await asyncio.wait_for(self.stop.wait(), STALL_S)
        except asyncio.TimeoutError:
            pass
        # The reader reads everything that was sent in the meantime, then pauses again.
        self.stall_at = time.monotonic() + random.uniform(1, STALL_S / 3)


class Load:
    """The datasets with their writers and readers."""

    @classmethod
    async def start(cls, services, every_s=WRITES_EVERY_S, n_datasets=N_DATASETS, readers_each=READERS_EACH):
        await wait_until(services.are_healthy, "all services respond")
        self = cls()
        self.services = services
        self.datasets = [await create(services, f"lost {n}") for n in range(n_datasets)]
        self.writers = [Writer(services, d, place) for d in self.datasets for place in range(WRITERS_EACH)]
        # When the stream of a reader that has a row is cut off, it resumes after that row.
        for writer in self.writers:
            await writer.insert([writer.place - WRITERS_EACH])
            if not writer.is_naming:
                # Replaces the row, as a retry on a slow machine does.
                await writer.insert([writer.place - WRITERS_EACH])
        self.stop = asyncio.Event()
        readers = [Reader] * readers_each + [StallingReader] * STALLING_READERS_EACH
        self.readers = [reader(services, d, self.stop) for d in self.datasets for reader in readers]
        self.reading = [asyncio.create_task(reader.run()) for reader in self.readers]
        await wait_until(lambda: all(reader.numbers for reader in self.readers), "all readers follow")
        self.writing = [asyncio.create_task(w.run(self.stop, every_s)) for w in self.writers]
        self.n_refused = 0
        return self

    async def wait_for_batches(self):
        """Waits until every writer has written more batches."""
        wanted = [writer.n_batches + BATCHES_BETWEEN for writer in self.writers]
        ended = lambda: [task for task in [*self.reading, *self.writing] if task.done()]
        are_done = lambda: all(w.n_batches >= n for w, n in zip(self.writers, wanted)) or ended()
        await wait_until(are_done, "writers continue")
        for task in ended():
            task.result()
            raise AssertionError("a reader or writer exited")

    def losses(self):
        """Returns the number of retries and errors since the last call."""
        n_refused, self.n_refused = self.n_refused, sum(writer.n_refused for writer in self.writers)
        longest_s = max(writer.longest_s for writer in self.writers)
        for writer in self.writers:
            writer.longest_s = 0
        n_refused = self.n_refused - n_refused
        return f"{n_refused} inserts were sent again, the longest took {longest_s:.1f} s"

    async def end(self):
        """Stops the writers, and compares the stored and the received rows with theirs."""
        self.stop.set()
        await asyncio.gather(*self.writing)
        for dataset in self.datasets:
            of_dataset = lambda all: [one for one in all if one.dataset == dataset]
            await check_dataset(
                self.services, dataset, of_dataset(self.writers), of_dataset(self.readers)
            )
        refusals = sum((writer.refusals for writer in self.writers), collections.Counter())
        for (status, text), n in refusals.most_common():
            print(f"{n} × {status or 'no response'} {text}")


async def stored(services, dataset):
    """Returns the stored rows: values by id."""
    path = f"/api/rows/?dataset={dataset}&start={timestamp(-9)}&end={timestamp(864000)}&limit={PAGE_ROWS}"
    rows, end = {}, time.monotonic() + WITHIN_S
    while path:
        status, text = await call(services.port, services.key, "GET", path)
        # On a busy machine, the proxy can consider all services as down for some seconds.
        if status == 503 and time.monotonic() < end:
            await asyncio.sleep(0.5)
            continue
        assert status == 200, (status, text)
        page = json.loads(text)
        rows |= {row["id"]: int(row["values"]["value"]) for row in page["results"]}
        path = page["next"] and "/api/" + page["next"].partition("/api/")[2]
    return rows


async def create(services, name, columns=(("value", "float"),)):
    body = {"name": name, "columns": [{"name": column, "dtype": dtype} for column, dtype in columns]}
    status, text = await call(services.port, services.key, "POST", "/api/datasets/", body)
    assert status == 201, (status, text)
    return json.loads(text)["id"]


async def check_dataset(services, dataset, writers, readers):
    acknowledged = {second for writer in writers for second in writer.acknowledged}
    rows = await stored(services, dataset)
    assert len(rows) == len(set(rows.values())), "a row is stored twice"
    lost = acknowledged - set(rows.values())
    assert not lost, f"dataset {dataset}: {len(lost)} acknowledged rows are lost"
    assert set(rows.values()) == acknowledged, f"dataset {dataset}: rows that were not acknowledged are stored"
    newest = max(rows)
    have_all = lambda: all(reader.numbers[-1] >= newest for reader in readers)
    await wait_until(have_all, f"dataset {dataset}: all readers have all rows")
    once = {second for writer in writers if writer.is_naming for second in writer.acknowledged}
    for reader in readers:
        # The first rows are sent with numbers at which a reader can resume, not with their own numbers.
        first = reader.numbers[WRITERS_EACH - 1]
        missing = sorted(number for number in rows.keys() - set(reader.numbers) if number > first)
        assert not missing, f"a reader lacks rows {missing}, and begins with {reader.numbers[:9]}"
        assert set(reader.values) == acknowledged, "a reader has other rows"
        named = [value for value in reader.values if value in once]
        assert len(named) == len(once), "a reader has a row of a named batch twice"
    n_connections = sum(reader.n_connections for reader in readers)
    n_of_stalling = sum(reader.n_connections for reader in readers if reader.is_stalling)
    gap_s = max(reader.longest_gap_s for reader in readers if not reader.is_stalling)
    print(
        f"dataset {dataset}: {len(acknowledged)} rows acknowledged = stored = streamed, in order, to"
        f" {len(readers)} readers over {n_connections} connections, {n_of_stalling} of those that stall,"
        f" at most {gap_s:.1f} s without a row"
    )
