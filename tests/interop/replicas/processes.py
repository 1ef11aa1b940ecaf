"""Processes that tests start, kill and start again, and waiting for what they do."""

import asyncio
import pathlib
import socket
import subprocess
import time

from wire import WITHIN_S


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def wait_until(is_so, what):
    end = time.monotonic() + WITHIN_S
    while True:
        result = is_so()
        if await result if asyncio.iscoroutine(result) else result:
            return
        assert time.monotonic() < end, f"timed out: {what}"
        await asyncio.sleep(0.05)


class Process:
    """A program that is killed and started again."""

    def __init__(self, name, command, home):
        self.name, self.command, self.log = name, command, pathlib.Path(home) / f"{name}.log"
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self):
        self.process.kill()
        self.process.wait()
