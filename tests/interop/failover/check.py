"""Kills each process of the services and of their database in turn, and checks that every acknowledged row is
stored, and is streamed to every reader once and in order.

    check.py program folder folder-of-PostgreSQL's-programs [part…]
"""

import asyncio
import gzip
import random
import signal
import subprocess
import sys
import time

from load import N_DATASETS, Load, create, timestamp
from patroni import LEASE_S, Cluster, kill
from processes import wait_until
from services import Services
from wire import call, send

DATABASE = "rows"
# Pause between two batches of a writer.
WRITES_EVERY_S = 0.3
# Downtime of a part before others take over its work.
AWAY_S = 1
# Time for which a former leader is observed. It must not acknowledge a write.
REFUSES_FOR_S = 2
# Number of reads from a service, more than a lease of its quota contains.
READS = 20
# Number of rows of the downloaded dataset, number of rows of an insert, and bytes of text per row. All
# of it exceeds the buffers of connections, even if it is compressed to half.
LARGE_ROWS = 8000
LARGE_ROWS_EACH = 2000
LARGE_TEXT_BYTES = 1000
# The parts, in the order in which they are killed.
LOSSES = [
    "leader", "replica0", "frozen-leader", "haproxy", "standby", "postgres", "replica1", "frozen-patroni", "etcd",
    "replica2", "copies", "leader",
]


class Test:
    def __init__(self, cluster, services):
        self.cluster, self.services = cluster, services

    async def lose(self, what):
        """Kills a part and starts it again."""
        processes = {"haproxy": self.services.balancer, "etcd": self.cluster.etcd}
        processes |= {process.name: process for process in self.services.replicas}
        if process := processes.get(what):
            process.kill()
            # The keys in etcd expire in the meantime.
            await asyncio.sleep(LEASE_S + AWAY_S if what == "etcd" else AWAY_S)
            process.start()
            return
        leader = await self.cluster.wait_for_leader()
        match what:
            case "leader":
                leader.kill_all()
                await self.cluster.wait_for_leader(leader)
                leader.patroni.start()
            case "standby":
                standby = await self.cluster.wait_for_copy()
                standby.kill_all()
                await asyncio.sleep(AWAY_S)
                standby.patroni.start()
            case "postgres":
                kill(leader.postgres()[:1], signal.SIGKILL)
            case "copies":
                await self.stop_copies(leader)
            case "frozen-leader":
                await self.freeze(leader, [leader.patroni.process.pid, *leader.postgres()])
            case "frozen-patroni":
                await self.freeze(leader, [leader.patroni.process.pid])

    async def freeze(self, leader, pids):
        """Suspends the leader until another server leads. Then it must not acknowledge writes."""
        kill(pids, signal.SIGSTOP)
        try:
            await self.cluster.wait_for_leader(leader)
            # The server resumes before its Patroni, which then learns that the server does not lead any
            # longer.
            kill(pids[1:], signal.SIGCONT)
            write = leader.psql("INSERT INTO written VALUES (1)", DATABASE)
            quiet = subprocess.DEVNULL
            psql = await asyncio.create_subprocess_exec(*write, stdout=quiet, stderr=quiet)
            try:
                await asyncio.wait_for(psql.wait(), REFUSES_FOR_S)
            except asyncio.TimeoutError:
                pass
        finally:
            kill(pids, signal.SIGCONT)
        status = await psql.wait()
        assert status != 0, "a former leader acknowledged a write"

    async def stop_copies(self, leader):
        """Suspends the copies, and stops the leader's server during an insert that waits for them. The insert
        must not be acknowledged before they resume, even if it is retried."""
        copies = [pid for node in self.cluster.nodes if node is not leader for pid in node.postgres()]
        dataset = await create(self.services, f"no copies {time.monotonic()}")
        n_waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        n_stored = f"SELECT count(*) FROM datasets.batches WHERE dataset = {dataset}"

        async def is_waiting():
            # The load has also inserted a row in each dataset.
            return int(await leader.query(n_waiting) or 0) > N_DATASETS

        async def is_stored():
            return await leader.query(n_stored, DATABASE) == "1" and await self.services.are_healthy()

        kill(copies, signal.SIGSTOP)
        try:
            insert = asyncio.create_task(self.insert_once(dataset))
            await wait_until(is_waiting, "the insert waits for a copy")
            await self.read_often(dataset)
            kill(leader.postgres()[:1], signal.SIGKILL)
            status, _ = await insert
            assert status == 503, "an insert was acknowledged without a copy"
            await wait_until(is_stored, "the server has the insert again")
            try:
                status, _ = await asyncio.wait_for(self.insert_once(dataset), REFUSES_FOR_S)
            except asyncio.TimeoutError:
                status = 0
            assert status in (0, 503), f"{status}: an insert was acknowledged before there was a copy"
        finally:
            kill(copies, signal.SIGCONT)

        async def is_acknowledged():
            return (await self.insert_once(dataset))[0] == 201

        await wait_until(is_acknowledged, "the insert is acknowledged")
        leader = await self.cluster.wait_for_leader()
        assert await leader.query(n_stored, DATABASE) == "1", "it is stored once"

    async def read_often(self, dataset):
        """Reads through a service with a quota and one without."""
        services = self.services
        for port in [services.limited_port, services.port] * READS:
            status, text = await call(port, services.key, "GET", f"/api/rows/?dataset={dataset}")
            assert status == 200, f"reads do not continue: {status} {text}"

    async def insert_once(self, dataset):
        body = {"dataset": dataset, "rows": [{"timestamp": timestamp(0), "values": {"value": 1}}]}
        name = [f"Idempotency-Key: {dataset}"]
        services = self.services
        return await call(services.port, services.key, "POST", "/api/rows/bulk_insert/", body, name)

    async def create_large(self):
        """Creates a dataset without writers, and returns its download."""
        columns = [("value", "float"), ("text", "string")]
        dataset = await create(self.services, "large", columns)
        random_text = lambda: random.randbytes(LARGE_TEXT_BYTES // 2).hex()
        for first in range(0, LARGE_ROWS, LARGE_ROWS_EACH):
            rows = [
                {"timestamp": timestamp(n), "values": {"value": n, "text": random_text()}}
                for n in range(first, first + LARGE_ROWS_EACH)
            ]
            body, services = {"dataset": dataset, "rows": rows}, self.services
            status, text = await call(services.port, services.key, "POST", "/api/rows/bulk_insert/", body)
            assert status == 201, (status, text)
        whole = await (await self.begin_download(dataset))
        assert whole and len(whole.splitlines()) == LARGE_ROWS + 1, "the whole is downloaded"
        return dataset, whole

    async def begin_download(self, dataset):
        """Begins a download from one of the services, and stops reading. Returns a function that reads the
        rest and returns the whole body, or None if it is cut off."""
        path = f"/api/rows/bulk_download/?dataset={dataset}&output=csv"
        port = random.choice(self.services.ports)
        # Compressed text is sent while it is read. Uncompressed text of this length would be spooled
        # first.
        headers = ["Accept-Encoding: gzip"]
        response = await send(port, self.services.key, "GET", path, None, headers, is_narrow=True)
        assert response.status == 200, response.status
        chunks = response.chunks()
        begin = await anext(chunks)

        async def read():
            try:
                return gzip.decompress(b"".join([begin, *[chunk async for chunk in chunks]]))
            except (OSError, ValueError, asyncio.IncompleteReadError):
                return None
            finally:
                response.writer.close()

        return read()

    async def run(self, losses):
        await self.cluster.wait_until_whole()
        load = await Load.start(self.services, WRITES_EVERY_S)
        await load.wait_for_batches()
        dataset, whole = await self.create_large()
        n_whole = 0
        for what in losses:
            began, download = time.monotonic(), await self.begin_download(dataset)
            await self.lose(what)
            await self.cluster.wait_until_whole()
            await wait_until(self.services.are_healthy, "all services are healthy again")
            took = time.monotonic() - began
            downloaded = await download
            assert downloaded in (None, whole), "a complete download lacks rows"
            n_whole += downloaded is not None
            await load.wait_for_batches()
            print(f"lost {what}, recovered after {took:.1f} s: {load.losses()}", flush=True)
        # The services have been restarted, so everything is read from the database.
        for process in self.services.replicas:
            process.kill()
            process.start()
        await wait_until(self.services.are_healthy, "all services are healthy again")
        await load.end()
        assert await (await self.begin_download(dataset)) == whole, "a download has all rows"
        print(f"{n_whole} of {len(losses)} downloads went on while a part was lost, the others were cut off")
        await self.check_revisions()

    async def check_revisions(self):
        leader = await self.cluster.wait_for_leader()
        sql = "SELECT dataset, count(*), min(c.revision), max(c.revision), max(d.revision)"
        sql += " FROM datasets.commits c JOIN datasets.datasets d ON d.id = dataset GROUP BY dataset"
        for line in (await leader.query(sql, DATABASE)).splitlines():
            dataset, n, first, last, head = map(int, line.split(","))
            assert (n, last) == (last - first + 1, head), f"commits of dataset {dataset}: {line}"
            print(f"dataset {dataset}: {n} commits, {first} to {last} without a gap")


async def create_database(cluster):
    await cluster.wait_until_whole()
    leader = await cluster.wait_for_leader()
    assert await leader.query(f"CREATE DATABASE {DATABASE}") is not None
    assert await leader.query("CREATE TABLE written (number integer)", DATABASE) is not None

    async def is_found():
        url = f"postgres://postgres@127.0.0.1:{cluster.port}/{DATABASE}"
        command = [f"{leader.bin}/psql", "--command", "SELECT 1", url]
        quiet = subprocess.DEVNULL
        psql = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        return await psql.wait() == 0

    await wait_until(is_found, "the balancer finds the leader")
    return f"postgres://postgres@127.0.0.1:{cluster.port}/{DATABASE}"


def main():
    program, home, bin, *losses = sys.argv[1:]
    cluster = Cluster(home, bin)
    services = Services(home, cluster.balancer_config())
    try:
        database = asyncio.run(create_database(cluster))
        services.serve(program, database)
        asyncio.run(Test(cluster, services).run(losses or LOSSES))
    except BaseException:
        services.print_logs(cluster.processes())
        raise
    finally:
        services.end()
        cluster.end()


main()
