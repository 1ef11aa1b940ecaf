"""Moves datasets round and round between three servers under writers and readers, kills services, moves
and a server in the midst, and shows that what was acknowledged is stored, and streamed to every reader
once and in order.

    check.py program port-of-first-server folder-of-programs folder user…

`user…` is the command that runs another one as the user of the servers.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time

from load import FIRST, Load, create
from processes import free_port, wait_until
from servers import Server
from services import LOG_BYTES, Services
from wire import call

DATABASE = "rows"
FURTHER = ["second", "third"]
STORES = ["first", *FURTHER]
N_DATASETS = 8
READERS_EACH = 4
# Between two batches of a writer: as fast as moves and readers get along beside it.
WRITES_EVERY_S = 0.3
# Moves at a time, and what becomes of each, which is drawn.
MOVERS = 2
ENDS = ["done", "done", "done", "killed", "killed", "paused"]
# Moves that are paused in all: a server ends a transaction that one was paused in after 15 s, for which
# writers of its dataset wait.
PAUSES = 4
# How long a move that is killed or paused has been at work at most.
LOST_WITHIN_S = 1.5
# A move that waits for one that was paused in a transaction goes on when the server ends that.
MOVED_WITHIN_S = 90
LOSSES = ["replica0", "second", "replica1", "replica2"]
# Rows of a dataset that nobody writes to, one in so many seconds: several chunks of them.
STILL_ROWS, STILL_STEP_S = 5_000, 60
# Tables that hold what datasets have: all of a server that has none are empty.
TABLES = ["datasets", "head", "chunks", "tail", "buckets", "feed", "batches"]


class Stores:
    """The servers, and the program that moves datasets between them."""

    def __init__(self, program, first, folder):
        self.program, self.first = program, first
        self.further = {name: first.another(f"{folder}/{name}", free_port()) for name in FURTHER}
        self.database = self.url(first)
        self.n_moves, self.n_killed, self.n_paused, self.n_refused = 0, 0, 0, 0
        # Moves that were paused, by their dataset: they go on once that is somewhere else.
        self.paused, self.movers = {}, []
        self.log = tempfile.TemporaryFile()

    def url(self, server):
        return f"postgres://postgres@127.0.0.1:{server.port}/{DATABASE}"

    def add(self):
        for name, server in self.further.items():
            server.query("postgres", f"CREATE DATABASE {DATABASE}")
            self.run("stores", "add", self.url(server), "--name", name)

    def command(self, *arguments):
        return [self.program, "datasets", *map(str, arguments), "--store", self.database]

    def run(self, *arguments):
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def place(self, dataset):
        """The name of the server that has a dataset."""
        sql = f"SELECT coalesce(place, 0) FROM datasets.head WHERE dataset = {dataset}"
        place = self.first.query(DATABASE, sql)
        sql = f"SELECT name FROM datasets.stores WHERE id = {place}"
        return self.first.query(DATABASE, sql)

    async def move(self, dataset, store):
        """Moves a dataset, and begins again until it is there."""
        end = time.monotonic() + MOVED_WITHIN_S
        code, stale = None, self.paused.get(dataset)
        while code != 0:
            assert time.monotonic() < end, f"dataset {dataset} does not move to {store}"
            command = self.command("move", dataset, store)
            streams = {"stdout": subprocess.DEVNULL, "stderr": self.log}
            mover = await asyncio.create_subprocess_exec(*command, **streams)
            self.movers.append(mover)
            code = await self.lose(mover, dataset, random.choice(ENDS))
            if code not in (None, 0, -signal.SIGKILL):
                self.n_refused += 1
                await asyncio.sleep(0.2)
        self.n_moves += 1
        # What it moved was moved again since: it must change nothing.
        if stale:
            notify(self.paused.pop(dataset), signal.SIGCONT)

    async def lose(self, mover, dataset, end):
        """Waits for the end of a move, kills it or pauses it; its exit code, none where it is paused."""
        if end == "paused" and (dataset in self.paused or self.n_paused >= PAUSES):
            end = "done"
        if end != "done":
            try:
                return await asyncio.wait_for(mover.wait(), random.uniform(0, LOST_WITHIN_S))
            except asyncio.TimeoutError:
                pass
        if end == "killed" and notify(mover, signal.SIGKILL):
            self.n_killed += 1
        if end == "paused" and notify(mover, signal.SIGSTOP):
            self.paused[dataset] = mover
            self.n_paused += 1
            return None
        return await mover.wait()

    def print_log(self):
        print("== moves on record: number, dataset, from, to, step, time", file=sys.stderr)
        print(self.first.query(DATABASE, "SELECT * FROM datasets.moves"), file=sys.stderr)
        self.log.seek(0)
        print(f"== moves\n{self.log.read()[-LOG_BYTES:].decode()}", file=sys.stderr)

    def end(self):
        for mover in self.movers:
            notify(mover, signal.SIGKILL)
        for server in self.further.values():
            # It may be lost already.
            try:
                server.lose()
            except AssertionError:
                pass

    def n_records(self, name):
        """How many records a further server has of datasets."""
        counts = " + ".join(f"(SELECT count(*) FROM datasets.{table})" for table in TABLES)
        return int(self.further[name].query(DATABASE, f"SELECT {counts}"))


def notify(mover, number):
    """Sends a signal to a program; whether it had not ended."""
    try:
        mover.send_signal(number)
    except ProcessLookupError:
        return False
    return True


class Still:
    """A dataset that nobody writes to, which reads the same wherever it is."""

    def __init__(self, services, dataset):
        self.services, self.dataset = services, dataset
        self.n_reads, self.n_refused = 0, 0

    @classmethod
    async def fill(cls, services, name):
        self = cls(services, await create(services, name))
        for start in range(0, STILL_ROWS, 1000):
            # The last rows of each batch are late ones.
            places = [*range(start + 10, start + 1000), *range(start, start + 10)]
            for part in [places[:990], places[990:]]:
                rows = [{"timestamp": at(n), "values": {"value": n * n % 1013 / 7}} for n in part]
                body = {"dataset": self.dataset, "rows": rows}
                path = "/api/rows/bulk_insert/"
                status, text = await call(services.port, services.key, "POST", path, body)
                assert status == 201, (status, text)
        self.want = [await self.read(path) for path in self.paths()]
        assert all(status == 200 for status, _ in self.want), self.want
        return self

    def paths(self):
        span = f"dataset={self.dataset}&start={at(0)}&end={at(STILL_ROWS)}"
        page = f"/api/rows/?{span}&ordering=timestamp&limit=250"
        yield page
        yield f"{page}&offset=2345"
        yield f"/api/rows/?{span}&ordering=-timestamp&limit=700"
        yield f"/api/rows/?{span}&ordering=timestamp&limit=500&resolution=1h"
        yield f"/api/rows/bulk_download/?dataset={self.dataset}&output=csv"

    async def read(self, path):
        """The status, and all rows of a response and those that follow it."""
        status, text = await call(self.services.port, self.services.key, "GET", path)
        if status != 200 or "bulk_download" in path:
            return status, text
        rows, text = [], json.loads(text)
        while True:
            rows += text["results"]
            if not text["next"] or "offset" in path:
                return status, rows
            following = "/api/" + text["next"].partition("/api/")[2]
            status, text = await call(self.services.port, self.services.key, "GET", following)
            if status != 200:
                return status, text
            text = json.loads(text)

    async def check(self):
        for path, want in zip(self.paths(), self.want):
            found = await self.read(path)
            if found[0] in (0, 502, 503, 504):
                self.n_refused += 1
                continue
            assert found == want, f"{path} was {str(want)[:300]}, and is {str(found)[:300]}"
            self.n_reads += 1

    async def go_on(self, stop):
        while not stop.is_set():
            await self.check()
            await asyncio.sleep(0.2)


def at(place):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST + place * STILL_STEP_S))


async def move_on(stores, datasets, stop):
    """Moves datasets one after another, each to a server that it is not on."""
    while not stop.is_set():
        for dataset in random.sample(datasets, len(datasets)):
            here = stores.place(dataset)
            await stores.move(dataset, random.choice([name for name in STORES if name != here]))
            if stop.is_set():
                return


async def lose(services, stores, what, steady):
    """Kills a part, leaves it away for a while, and starts it again."""
    if what in stores.further:
        stores.further[what].lose()
        # Datasets that are elsewhere are written to as before.
        wanted = [writer.n_batches + 3 for writer in steady]
        goes_on = lambda: all(writer.n_batches >= n for writer, n in zip(steady, wanted))
        await wait_until(goes_on, f"other datasets go on without {what}")
        stores.further[what].start()
        return
    replica = services.replicas[int(what[-1])]
    replica.kill()
    await asyncio.sleep(1)
    replica.start()


async def check(services, stores):
    stores.add()
    stills = [await Still.fill(services, f"still {n}") for n in range(2)]
    load = await Load.start(services, WRITES_EVERY_S, N_DATASETS, READERS_EACH)
    # One that stays where no server is lost.
    steady, *moving = load.datasets
    if stores.place(steady) != "first":
        stores.run("move", steady, "first")
    lists = [moving[n::MOVERS] + [stills[n].dataset] for n in range(MOVERS)]
    stop = asyncio.Event()
    movers = [asyncio.create_task(move_on(stores, datasets, stop)) for datasets in lists]
    checks = [asyncio.create_task(still.go_on(stop)) for still in stills]
    load.reading += movers + checks
    await load.go_on()
    for what in LOSSES:
        n_moves = stores.n_moves
        await lose(services, stores, what, [w for w in load.writers if w.dataset == steady])
        await wait_until(services.are_healthy, "all services are healthy again")
        await load.go_on()
        await wait_until(lambda: stores.n_moves > n_moves + MOVERS, "moves go on")
        print(f"lost {what}: {load.losses()}; {stores.n_moves} moves so far", flush=True)
    # What is under way is finished: a move that is given up keeps writers out for a minute.
    stop.set()
    await asyncio.gather(*movers, *checks)
    await load.end()
    await check_drained(services, stores, [*load.datasets, *(still.dataset for still in stills)], stills)
    print(
        f"{stores.n_moves} moves: {stores.n_killed} were killed, {stores.n_paused} paused and"
        f" {stores.n_refused} refused before they were done; {sum(still.n_reads for still in stills)}"
        " reads of what nobody writes to were the same before and after"
    )


async def check_drained(services, stores, datasets, stills):
    """A server that is drained has nothing, is removed, and is missed by nobody."""
    stores.run("stores", "state", "second", "drained")
    stores.run("move", "--all-from", "second", "third")
    assert all(stores.place(dataset) != "second" for dataset in datasets)
    for n in range(4):
        assert stores.place(await create(services, f"after {n}")) != "second"
    await wait_until(lambda: stores.n_records("second") == 0, "a drained server is empty")
    stores.run("stores", "remove", "second")
    stores.further["second"].lose()
    for still in stills:
        n_reads, still.n_refused = still.n_reads, 0
        await still.check()
        assert still.n_refused == 0 and still.n_reads > n_reads, "a dataset is still on a drained server"

    async def is_forgotten():
        answers = [await call(port, services.key, "GET", "/metrics") for port in services.ports]
        return all(status == 200 and 'server="second"' not in text for status, text in answers)

    await wait_until(is_forgotten, "a server that was removed is in no metrics")


def main():
    program, port, programs, folder, *as_user = sys.argv[1:]
    first = Server(programs, f"{folder}/data", int(port), as_user)
    stores = Stores(program, first, folder)
    with tempfile.TemporaryDirectory(prefix="interop-moves-") as home:
        services = Services(home)
        try:
            services.serve(program, stores.database)
            asyncio.run(check(services, stores))
        except BaseException:
            services.print_logs()
            stores.print_log()
            raise
        finally:
            services.end()
            stores.end()


main()
