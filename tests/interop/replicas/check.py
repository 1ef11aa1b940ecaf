"""Kills services, NATS and PostgreSQL in turn, and shows that what was acknowledged is stored, and streamed
to every reader once and in order.

    check.py program address-of-database folder command-that-controls-the-server…
"""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from load import WRITERS_EACH, Reader, Writer, check_dataset, create
from processes import Process, free_port, wait_until
from wire import call

N_REPLICAS = 3
N_DATASETS = 3
READERS_EACH = 100
# Batches that each writer gets through between two losses.
BATCHES_BETWEEN = 8
LOSSES = ["replica0", "nats", "postgres", "replica1", "nats", "replica2", "postgres"]


class Servers:
    """All that runs, but for the database."""

    def __init__(self, program, database, home):
        self.nats_port, self.port = free_port(), free_port()
        self.ports = [free_port() for _ in range(N_REPLICAS)]
        told = subprocess.run(
            [program, "keys", "create", "owner", "--database", database],
            capture_output=True, text=True, check=True,
        ).stdout
        at = told.index("UP-")
        self.key = told[at : at + 27]
        nats = ["nats-server", "--addr", "127.0.0.1", "--port", str(self.nats_port)]
        self.nats = Process("nats", nats, home)
        serve = [program, "datasets", "serve", "--unlimited-loopback", "--store", database]
        serve += ["--raw-range-cap", "0"]
        serve += ["--fanout", f"nats://127.0.0.1:{self.nats_port}"]
        self.replicas = [
            Process(f"replica{n}", [*serve, *self.place(home, n)], home) for n in range(N_REPLICAS)
        ]
        config = pathlib.Path(home) / "haproxy.cfg"
        config.write_text(self.balancer_config())
        self.balancer = Process("haproxy", ["haproxy", "-db", "-f", str(config)], home)

    def place(self, home, n):
        return ["--listen", f"127.0.0.1:{self.ports[n]}", "--data-dir", f"{home}/replica{n}"]

    def balancer_config(self):
        lines = [
            "global", " maxconn 4000", "defaults", " mode http", " timeout connect 2s",
            " timeout client 90s", " timeout server 90s", " option redispatch", "listen replicas",
            f" bind 127.0.0.1:{self.port}", " balance leastconn", " option httpchk GET /health",
            " default-server check inter 500ms fall 2 rise 1",
        ]
        lines += [f" server replica{n} 127.0.0.1:{port}" for n, port in enumerate(self.ports)]
        return "\n".join(lines) + "\n"

    async def are_healthy(self):
        answers = [await call(port, self.key, "GET", "/health") for port in [*self.ports, self.port]]
        return all(status == 200 for status, _ in answers)

    async def lose(self, what, database, control):
        """Kills a part, leaves it away for a while, and starts it again."""
        if what != "postgres":
            process = self.nats if what == "nats" else self.replicas[int(what[-1])]
            process.kill()
            await asyncio.sleep(2)
            process.start()
            return
        pid = int((database / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(2)
        for _ in range(20):
            quiet = subprocess.DEVNULL
            start = await asyncio.create_subprocess_exec(*control, "start", stdout=quiet)
            if await start.wait() == 0:
                return
            await asyncio.sleep(0.5)
        raise AssertionError("the database did not start again")

    def end(self):
        for process in [self.balancer, *self.replicas, self.nats]:
            process.kill()


async def send_nonsense(port, era, dataset):
    """Publishes what no service publishes: forged, doubled, huge and meaningless hints."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    subject = f"triptych.{era}.ds.{dataset}"
    messages = [(subject, b"18446744073709551615"), (subject, b"1"), (subject, b"x" * 500_000)]
    messages += [(f"triptych.{era}.{end}", b"5") for end in ["ds.999999", "ds.x", "withdrawn", "o.7"]]
    writer.write(b"CONNECT {}\r\n")
    for subject, payload in messages * 20:
        writer.write(f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n")
        await writer.drain()
    writer.close()


async def check(servers, database, control):
    await wait_until(servers.are_healthy, "all services respond")
    datasets = [await create(servers, f"lost {n}") for n in range(N_DATASETS)]
    connection = (servers.port, servers.key)
    writers = [
        Writer(*connection, dataset, place) for dataset in datasets for place in range(WRITERS_EACH)
    ]
    # A reader that has a row goes on after it, wherever it is cut off.
    for writer in writers:
        await writer.insert([writer.place - WRITERS_EACH])
    readers = [Reader(*connection, dataset) for dataset in datasets for _ in range(READERS_EACH)]
    tasks = [asyncio.create_task(reader.run()) for reader in readers]
    await wait_until(lambda: all(reader.seen for reader in readers), "all readers follow")
    era = readers[0].last_id.rpartition(":")[2].partition("-")[0]
    stop = asyncio.Event()
    writing = [asyncio.create_task(writer.run(stop)) for writer in writers]

    async def go_on():
        wanted = [writer.n_batches + BATCHES_BETWEEN for writer in writers]
        ended = lambda: [task for task in [*tasks, *writing] if task.done()]
        are_done = lambda: all(w.n_batches >= n for w, n in zip(writers, wanted)) or ended()
        await wait_until(are_done, "writers go on")
        for task in ended():
            task.result()
            raise AssertionError("a reader or writer ended")

    for what in LOSSES:
        await go_on()
        n_refused = sum(writer.n_refused for writer in writers)
        began = time.monotonic()
        await servers.lose(what, database, control)
        await wait_until(servers.are_healthy, "all services are healthy again")
        if what == "nats":
            await send_nonsense(servers.nats_port, era, datasets[0])
        n_refused = sum(writer.n_refused for writer in writers) - n_refused
        took = time.monotonic() - began
        print(f"killed {what}, healthy after {took:.1f} s: {n_refused} inserts were sent again")
    await go_on()
    stop.set()
    await asyncio.gather(*writing)
    for dataset in datasets:
        of_dataset = lambda all: [one for one in all if one.dataset == dataset]
        await check_dataset(servers, dataset, of_dataset(writers), of_dataset(readers))


def main():
    program, database, folder, *control = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="interop-replicas-") as home:
        servers = Servers(program, database, home)
        try:
            asyncio.run(check(servers, pathlib.Path(folder) / "data", control))
        except BaseException:
            for process in [*servers.replicas, servers.nats, servers.balancer]:
                print(f"== {process.name}\n{process.log.read_text()[-3000:]}", file=sys.stderr)
            raise
        finally:
            servers.end()


main()
