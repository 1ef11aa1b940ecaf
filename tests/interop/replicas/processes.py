"""Processes that tests kill and restart, and waiting for conditions."""

import asyncio
import json
import pathlib
import random
import socket
import subprocess
import time

from wire import WITHIN_S


# Below the ports of outgoing connections, which could take the port of a program between its exit and
# its restart.
PORTS = iter(random.sample(range(10_000, 30_000), 2000))


def free_port():
    """Returns a free port, a different one each time."""
    for port in PORTS:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def create_key(program, database):
    """Creates a key for the services on a database, and returns its secret."""
    command = [program, "keys", "create", "owner", "--json", "--database", database]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(made)["api_key"]


async def wait_until(is_so, what, within_s=WITHIN_S):
    end = time.monotonic() + within_s
    while True:
        result = is_so()
        if await result if asyncio.iscoroutine(result) else result:
            return
        assert time.monotonic() < end, f"timed out: {what}"
        await asyncio.sleep(0.05)


class Process:
    """A program that can be killed and restarted, optionally as another user."""

    def __init__(self, name, command, home, user=None):
        self.name, self.command, self.log = name, command, pathlib.Path(home) / f"{name}.log"
        self.user = {"user": user, "group": user, "extra_groups": []} if user else {}
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self.user
            )

    def kill(self):
        self.process.kill()
        self.process.wait()
