"""Submits to epochs of several services, which are killed in turn, and checks that each epoch closes once with
every acknowledged submission.

    check.py program address-of-database psql
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

from processes import Process, create_key, free_port, wait_until
from wire import call

N_REPLICAS = 3
N_EPOCHS = 200
# Number of topics, whose epochs close at the same time.
N_TOPICS = 4
BLOCK_MS = 50
# The shortest epoch that the chain permits. Its window is as long, so submissions race with the end of
# the epoch.
EPOCH_BLOCKS = 12
WRITERS_EACH = 2
MODELS_EACH = 8
# Range of the pause between two submissions of a writer. With it, all models of the writer submit once
# per epoch.
SUBMITS_EVERY_S = (0.02, 0.11)
# Pause between the restart of a service and the next kill.
KILLS_EVERY_S = 1.5
ROWS_EVERY_S = 0.3
FIRST = 1_700_000_000
# States of epochs that are still open or whose losses are unknown.
UNFINISHED = "0, 1"
CLOSED = re.compile(r"closed nonce (\d+) of topic (\d+)")
PAYLOAD_REPEATED = 6


class Servers:
    """The inference services and their dataset service."""

    def __init__(self, program, database, psql, home):
        self.database, self.psql = database, psql
        self.datasets_port = free_port()
        self.ports = [free_port() for _ in range(N_REPLICAS)]
        self.key = create_key(program, database)
        os.environ["TRIPTYCH_API_KEY"] = self.key
        shared = ["--unlimited-loopback", "--store", database]
        serve = [program, "datasets", "serve", *shared, *self.place(home, self.datasets_port)]
        self.datasets = Process("datasets", serve, home)
        serve = [program, "inference", "serve", *shared, "--block-time-ms", str(BLOCK_MS)]
        serve += ["--datasets", f"http://127.0.0.1:{self.datasets_port}/api"]
        # Only the models of this test submit.
        serve += ["--head", "http://127.0.0.1:1", "--workers-per-account", "0"]
        self.replicas = [
            Process(f"replica{n}", [*serve, *self.place(home, port)], home)
            for n, port in enumerate(self.ports)
        ]

    def place(self, home, port):
        return ["--listen", f"127.0.0.1:{port}", "--data-dir", f"{home}/{port}"]

    async def is_healthy(self, port):
        return (await call(port, self.key, "GET", "/health"))[0] == 200

    async def are_healthy(self):
        return all([await self.is_healthy(port) for port in [self.datasets_port, *self.ports]])

    async def ask(self, port, method, path, body=None):
        status, text = await call(port, self.key, method, path, body)
        assert status in (200, 201), f"{method} {path}: {status} {text}"
        return json.loads(text)

    async def query(self, sql):
        """Returns the rows of a query."""
        command = [self.psql, "--no-psqlrc", "--csv", "--tuples-only", "--command", sql, self.database]
        psql = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        told, _ = await psql.communicate()
        assert psql.returncode == 0, sql
        return [tuple(map(int, line.split(","))) for line in told.decode().split()]

    async def create_topics(self):
        columns = [{"name": "value", "dtype": "float"}]
        body = {"name": "walk", "columns": columns}
        created = await self.ask(self.datasets_port, "POST", "/api/datasets/", body)
        self.dataset = created["id"]
        for second in range(2):
            await self.insert(second)
        settings = {
            "metadata": "walk", "dataset": "walk", "column": "value", "horizon_seconds": 1,
            "epoch_length": EPOCH_BLOCKS, "worker_submission_window": EPOCH_BLOCKS,
            "max_top_inferers_to_reward": 1000, "built_in_forecasters": False,
            # With short epochs, losses are computed within the test.
            "experimental": True,
        }
        port = self.ports[0]
        created = [await self.ask(port, "POST", "/api/v1/topics", settings) for _ in range(N_TOPICS)]
        return [int(topic["topic"]["id"]) for topic in created]

    async def insert(self, second):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST + second))
        rows = [{"timestamp": at, "values": {"value": 100 + second % 7 * 0.37}}]
        body = {"dataset": self.dataset, "rows": rows}
        await self.ask(self.datasets_port, "POST", "/api/rows/bulk_insert/", body)

    async def move(self):
        """Inserts rows, which are the ground truth of epochs."""
        for second in range(2, 1_000_000):
            await self.insert(second)
            await asyncio.sleep(ROWS_EVERY_S)

    def end(self):
        for process in [*self.replicas, self.datasets]:
            process.kill()


class Results:
    """Acknowledged submissions by their values."""

    def __init__(self):
        self.acknowledged, self.unknown = {}, {}
        self.n_late = self.n_repeated = 0

    def next_value(self):
        n = len(self.acknowledged) + len(self.unknown) + self.n_late + self.n_repeated
        return f"{100 + n / 1_000_000:.6f}"


class Writer:
    """Submits once per epoch for each of its models, to any of the services."""

    def __init__(self, servers, topic, place, results):
        self.servers, self.topic, self.results = servers, topic, results
        self.models = [f"m{place}-{n}" for n in range(MODELS_EACH)]

    async def run(self, stop):
        path = f"/api/v1/topics/{self.topic}/submissions"
        number = 0
        while not stop.is_set():
            model = self.models[number % MODELS_EACH]
            number += 1
            value = self.results.next_value()
            # If there is no response, the submission may or may not have been stored.
            self.results.unknown[value] = (self.topic, model)
            port = random.choice(self.servers.ports)
            body = {"model": model, "value": value}
            status, text = await call(port, self.servers.key, "POST", path, body)
            self.count(value, status, text)
            await asyncio.sleep(random.uniform(*SUBMITS_EVERY_S))

    def count(self, value, status, text):
        if status in (0, 503):
            return
        del self.results.unknown[value]
        told = json.loads(text)
        if status == 200:
            self.results.acknowledged[value] = (told["topic_id"], told["nonce"], told["worker"])
        elif status == 409 and told["code"] == PAYLOAD_REPEATED:
            self.results.n_repeated += 1
        else:
            assert status == 400 and "window" in text, f"{status} {text}"
            self.results.n_late += 1


async def check_epoch(servers, results, topic, nonce):
    """Checks that all services return the same bundle of acknowledged submissions. Returns their number."""
    path = f"/api/v1/topics/{topic}/epochs/{nonce}"
    texts = [await call(port, servers.key, "GET", path) for port in servers.ports]
    assert texts[0][0] == 200, (path, *texts[0])
    assert len(set(texts)) == 1, f"{path}: services return different bundles"
    bundle = json.loads(texts[0][1])["network_inferences"]
    found = [(one["worker"], one["values"][0]["value"]) for one in bundle["inferer_values"]]
    assert len(found) == len(dict(found)), f"{path}: a worker occurs twice"
    n_unknown = 0
    for worker, value in found:
        value = f"{float(value):.6f}"
        n_unknown += value in results.unknown
        where = results.acknowledged.pop(value, None)
        assert value in results.unknown or where == (topic, nonce, worker), f"{path}: {value} {where}"
    return len(found), n_unknown


async def settle(servers, topics):
    """Pauses the topics, and waits until all open epochs have closed and their losses are known."""
    for topic in topics:
        path = f"/api/v1/topics/{topic}/active"
        await servers.ask(servers.ports[0], "PUT", path, {"active": False})
    unfinished = f"SELECT count(*) FROM epochs WHERE state IN ({UNFINISHED})"

    async def are_finished():
        return await servers.query(unfinished) == [(0,)]

    await wait_until(are_finished, "all epochs close, and are learned from")


async def check(servers):
    await wait_until(servers.are_healthy, "all services respond")
    topics = await servers.create_topics()
    results, stop = Results(), asyncio.Event()
    moving = asyncio.create_task(servers.move())
    writers = [Writer(servers, topic, place, results) for topic in topics for place in range(WRITERS_EACH)]
    writing = [asyncio.create_task(writer.run(stop)) for writer in writers]
    n_kills, began = 0, time.monotonic()
    while (await servers.query("SELECT count(*) FROM bundles"))[0][0] < N_EPOCHS:
        for task in [moving, *writing]:
            assert not task.done(), task.exception()
        await asyncio.sleep(KILLS_EVERY_S)
        replica, port = servers.replicas[n_kills % N_REPLICAS], servers.ports[n_kills % N_REPLICAS]
        replica.kill()
        replica.start()
        n_kills += 1
        await wait_until(lambda: servers.is_healthy(port), f"{replica.name} responds again")
    took = time.monotonic() - began
    stop.set()
    await asyncio.gather(*writing)
    await settle(servers, topics)
    moving.cancel()
    n_acknowledged = len(results.acknowledged)
    bundles = await servers.query("SELECT topic_id, nonce FROM bundles ORDER BY topic_id, nonce")
    counted = await servers.query("SELECT topic_id, n_epochs FROM holdings ORDER BY topic_id")
    closed = await servers.query("SELECT topic_id, count(*) FROM epochs GROUP BY 1 ORDER BY 1")
    assert counted == closed, f"each epoch was closed once: {counted} of {closed}"
    n_found = n_unknown = 0
    for topic, nonce in bundles:
        n_inferences, n_of_unknown = await check_epoch(servers, results, topic, nonce)
        n_found, n_unknown = n_found + n_inferences, n_unknown + n_of_unknown
    assert not results.acknowledged, f"not in their bundles: {results.acknowledged}"
    learned = await servers.query("SELECT count(*) FROM losses")
    logs = [set(CLOSED.findall(replica.log.read_text())) for replica in servers.replicas]
    print(
        f"{len(bundles)} epochs in {took:.1f} s, closed by services as {[len(log) for log in logs]} with"
        f" {n_kills} killed: {n_acknowledged} submissions acknowledged = in the bundles of their epochs"
        f" (and {n_unknown} of {len(results.unknown)} that got no answer); {results.n_late} refused since"
        f" no window was open; {learned[0][0]} epochs learned from; the services serve the same bytes"
    )
    assert n_found == n_acknowledged + n_unknown
    assert all(logs), "each service closed some"


def main():
    program, database, psql = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="interop-network-") as home:
        servers = Servers(program, database, psql, home)
        try:
            asyncio.run(check(servers))
        except BaseException:
            for process in [*servers.replicas, servers.datasets]:
                print(f"== {process.name}\n{process.log.read_text()[-3000:]}", file=sys.stderr)
            raise
        finally:
            servers.end()


main()
