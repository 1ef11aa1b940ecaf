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

from load import Load
from processes import wait_until
from services import NATS_LOGIN, Services

LOSSES = ["replica0", "nats", "postgres", "replica1", "nats", "replica2", "postgres"]


async def send_nonsense(port, era, dataset):
    """Publishes what no service publishes: forged, doubled, huge and meaningless hints."""
    writer = None

    async def is_connected():
        nonlocal writer
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        return True

    await wait_until(is_connected, "NATS is back")
    subject = f"triptych.{era}.ds.{dataset}"
    messages = [(subject, b"18446744073709551615"), (subject, b"1"), (subject, b"x" * 500_000)]
    messages += [(f"triptych.{era}.{end}", b"5") for end in ["ds.999999", "ds.x", "withdrawn", "o.7"]]
    login = dict(zip(["user", "pass"], NATS_LOGIN))
    writer.write(f"CONNECT {json.dumps(login)}\r\n".encode())
    for subject, payload in messages * 20:
        writer.write(f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n")
        await writer.drain()
    writer.close()


async def lose(services, what, database, control):
    """Kills a part, leaves it away for a while, and starts it again."""
    if what != "postgres":
        process = services.nats[0] if what == "nats" else services.replicas[int(what[-1])]
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


async def check(services, database, control):
    load = await Load.start(services)
    await load.go_on()
    for what in LOSSES:
        began = time.monotonic()
        await lose(services, what, database, control)
        await wait_until(services.are_healthy, "all services are healthy again")
        if what == "nats":
            await send_nonsense(services.nats_ports[0], load.era(), load.datasets[0])
        took = time.monotonic() - began
        await load.go_on()
        print(f"killed {what}, healthy after {took:.1f} s: {load.losses()}")
    await load.end()


def main():
    program, database, folder, *control = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="interop-replicas-") as home:
        services = Services(home)
        try:
            services.serve(program, database)
            asyncio.run(check(services, pathlib.Path(folder) / "data", control))
        except BaseException:
            services.print_logs()
            raise
        finally:
            services.end()


main()
