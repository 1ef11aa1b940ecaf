"""A service whose clock a test changes."""

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
STARTS_WITHIN_S = 30


class Service:
    """Runs PROGRAM with `arguments` under LIBRARY. Subclasses define when it responds."""

    def __init__(self, program, library, arguments):
        self.program, self.library, self.arguments = program, library, arguments
        self.folder = tempfile.TemporaryDirectory()
        self.clock = pathlib.Path(self.folder.name, "clock")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = None
        made = [program, "keys", "create", "clock", "--json", "--data-dir", self.folder.name]
        self.key = json.loads(subprocess.check_output(made))["api_key"]

    def set_clock(self, seconds):
        """Sets the clock of the program to the machine's plus `seconds`."""
        draft = self.clock.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.rename(self.clock)

    def start(self):
        command = [self.program, *self.arguments, "--data-dir", self.folder.name]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        moved = {
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_NO_CACHE": "1",
            # As on a real machine, correcting the date does not change the monotonic clock.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TRIPTYCH_API_KEY": self.key,
        }
        with open(self.log_path(), "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | moved)
        wait("it answers", STARTS_WITHIN_S, self.is_up)

    def is_up(self):
        try:
            return self.answers()
        except OSError:
            assert self.process.poll() is None, "it ended"
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"x-api-key": self.key, "content-type": "application/json"}
        url = f"http://127.0.0.1:{self.port}/{path}"
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def log_path(self):
        return pathlib.Path(self.folder.name, "log")

    def log(self):
        return self.log_path().read_text() if self.log_path().exists() else ""


def wait(what, seconds, is_so):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def run(service, test):
    """Runs `test` with a service, and stops it at the end. Prints its log if the test fails."""
    try:
        test(service)
    except BaseException:
        print(service.log()[-3000:], file=sys.stderr)
        raise
    finally:
        if service.process is not None:
            service.stop()
