"""Kills, stops and suspends services and PostgreSQL in turn, and checks that every acknowledged row is stored, and
is streamed to every reader once and in order.

    check.py program address-of-database folder command-that-controls-the-server…
"""

import asyncio
import os
import pathlib
import signal
import sys
import tempfile
import time

from load import Load
from processes import wait_until
from services import Services
from wire import send

# "kill" sends SIGKILL, and "pause" sends SIGSTOP to every process. The others are modes of pg_ctl.
LOSSES = [
    "replica0", "postgres killed", "replica1", "postgres fast", "postgres paused", "replica2",
    "postgres immediate", "postgres killed",
]
# Downtime of a part. With "fast", it exceeds the time that a request waits for a connection.
AWAY_S = 2
AWAY_FAST_S = 7


class Database:
    """The server and the command that controls it."""

    def __init__(self, folder, control):
        self.folder, self.control = folder, control

    def pids(self):
        """Returns the processes of the server, the parent first."""
        pid = (self.folder / "postmaster.pid").read_text().splitlines()[0]
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in [pid, *children]]

    async def run(self, *arguments):
        quiet = asyncio.subprocess.DEVNULL
        control = await asyncio.create_subprocess_exec(*self.control, *arguments, stdout=quiet)
        return await control.wait() == 0

    async def lose(self, how):
        if how == "killed":
            os.kill(self.pids()[0], signal.SIGKILL)
        else:
            assert await self.run("stop", "--mode", how)
        await asyncio.sleep(AWAY_FAST_S if how == "fast" else AWAY_S)
        # The port is free only after the children of a killed server have exited.
        for _ in range(20):
            if await self.run("start"):
                return
            await asyncio.sleep(0.5)
        raise AssertionError("the database did not start again")

    async def pause(self, services):
        """Suspends the server until every service responds 503."""
        pids = self.pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            for port in services.ports:
                for path in ["/api/datasets/", "/health"]:
                    response = await send(port, services.key, "GET", path)
                    response.writer.close()
                    assert response.status == 503, f"{path} of {port}: {response.status}"
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


async def lose(services, what, database):
    """Interrupts a part for a while."""
    kind, _, how = what.partition(" ")
    if how == "paused":
        await database.pause(services)
    elif how:
        await database.lose(how)
    else:
        replica = services.replicas[int(kind[-1])]
        replica.kill()
        await asyncio.sleep(AWAY_S)
        replica.start()


async def check(services, database):
    load = await Load.start(services)
    await load.wait_for_batches()
    for what in LOSSES:
        began = time.monotonic()
        await lose(services, what, database)
        await wait_until(services.are_healthy, "all services are healthy again")
        took = time.monotonic() - began
        await load.wait_for_batches()
        print(f"lost {what}, healthy after {took:.1f} s: {load.losses()}", flush=True)
    await load.end()


def main():
    program, address, folder, *control = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="interop-replicas-") as home:
        services = Services(home)
        try:
            services.serve(program, address)
            asyncio.run(check(services, Database(pathlib.Path(folder) / "data", control)))
        except BaseException:
            services.print_logs()
            raise
        finally:
            services.end()


main()
