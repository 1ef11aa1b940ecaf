"""Moves the clock under an inference service: inference.py PROGRAM LIBRARY

Epochs go on within two epochs' time after the clock was set right by a day, and during and after a
time of two days ahead, with and without a restart.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

DAY_S = 86_400
BLOCK_MS = 100
EPOCH_BLOCKS = 12

# Two epochs, and what a loaded machine takes to answer.
TWO_EPOCHS_S = 2 * EPOCH_BLOCKS * BLOCK_MS / 1000 + 1.5
STARTS_WITHIN_S = 30


class Service:
    def __init__(self, program, library):
        self.program, self.library = program, library
        self.folder = tempfile.TemporaryDirectory()
        self.clock = pathlib.Path(self.folder.name, "clock")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        made = [program, "keys", "create", "clock", "--json", "--data-dir", self.folder.name]
        self.key = json.loads(subprocess.check_output(made))["api_key"]

    def set_clock(self, seconds):
        """Sets the program's clock to the machine's and so many seconds."""
        draft = self.clock.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.rename(self.clock)

    def start(self):
        command = [self.program, "inference", "serve", "--demo", "--data-dir", self.folder.name]
        command += ["--listen", f"127.0.0.1:{self.port}", "--block-time-ms", str(BLOCK_MS)]
        # Nobody answers there: epochs open and close without inferences.
        command += ["--head", "http://127.0.0.1:1", "--datasets", "http://127.0.0.1:1/api"]
        moved = {
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_NO_CACHE": "1",
            # As on a real machine: a correction of the date is no time that passes.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TRIPTYCH_API_KEY": self.key,
        }
        log = open(pathlib.Path(self.folder.name, "log"), "a")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | moved)
        wait("it answers", STARTS_WITHIN_S, self.answers)

    def answers(self):
        try:
            return self.nonce() > 0
        except OSError:
            assert self.process.poll() is None, "it ended"
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def nonce(self):
        """The newest epoch of topic 1."""
        headers = {"x-api-key": self.key}
        request = urllib.request.Request(f"{self.url}/emissions/v10/topics/1", headers=headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(json.load(answer)["topic"]["epoch_last_ended"])

    def goes_on(self, what):
        before, started = self.nonce(), time.monotonic()
        wait(f"the next epoch {what}", TWO_EPOCHS_S, lambda: self.nonce() > before)
        print(f"{what}: the next epoch after {time.monotonic() - started:.1f} s")


def wait(what, seconds, is_so):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def main(program, library):
    service = Service(program, library)
    try:
        service.set_clock(-DAY_S)
        service.start()
        service.goes_on("a day behind")
        service.set_clock(0)
        service.goes_on("set right by a day")
        service.set_clock(2 * DAY_S)
        service.goes_on("two days ahead")
        service.set_clock(0)
        service.goes_on("no longer two days ahead")
        service.stop()
        service.start()
        service.goes_on("after a restart")
        service.stop()
        service.set_clock(2 * DAY_S)
        service.start()
        service.goes_on("started two days ahead")
        service.stop()
        service.set_clock(0)
        service.start()
        service.goes_on("started again with the right date")
        service.stop()
        log = pathlib.Path(service.folder.name, "log").read_text()
        n_moves = log.count("the clock was moved by")
        assert n_moves == 3, f"{n_moves} lines tell of three corrections"
        n_behind = log.count("the clock is behind the newest epoch")
        assert n_behind == 1, f"{n_behind} lines tell of a start with an earlier date"
    except BaseException:
        log = pathlib.Path(service.folder.name, "log")
        print(log.read_text()[-3000:] if log.exists() else "no log", file=sys.stderr)
        raise
    finally:
        if service.process is not None:
            service.stop()


main(*sys.argv[1:])
