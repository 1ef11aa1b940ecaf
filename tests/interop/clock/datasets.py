"""Moves the clock under a dataset service: datasets.py PROGRAM LIBRARY

The machine's measured load is stored on within seconds after a time of two days ahead, and no row is
gone.
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
STARTS_WITHIN_S = 30

# A measurement a second, and what a loaded machine takes to store and answer.
STORED_WITHIN_S = 5

# Old rows are deleted after so many measurements: what the test stores before and after is more.
PRUNE_EVERY = 60


class Service:
    def __init__(self, program, library):
        self.program, self.library = program, library
        self.folder = tempfile.TemporaryDirectory()
        self.clock = pathlib.Path(self.folder.name, "clock")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        made = [program, "keys", "create", "clock", "--json", "--data-dir", self.folder.name]
        self.key = json.loads(subprocess.check_output(made))["api_key"]
        self.process = None
        self.has_tag = False

    def set_clock(self, seconds):
        """Sets the program's clock to the machine's and so many seconds."""
        draft = self.clock.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.rename(self.clock)

    def start(self):
        command = [self.program, "datasets", "serve", "--demo", "--data-dir", self.folder.name]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        moved = {
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_NO_CACHE": "1",
            # As on a real machine: a correction of the date is no time that passes.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        log = open(pathlib.Path(self.folder.name, "log"), "a")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | moved)
        wait("it stores rows", STARTS_WITHIN_S, self.stores)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"x-api-key": self.key, "content-type": "application/json"}
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def stores(self):
        try:
            if not self.has_tag:
                self.ask("tags/acquire/", {"tag_name": "public"})
                self.has_tag = True
            return len(self.rows()) > 0
        except OSError:
            assert self.process.poll() is None, "it ended"
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def rows(self):
        """The timestamps of the newest rows of machine_cpu."""
        rows = self.ask("rows/?dataset_name=machine_cpu&limit=1000")["results"]
        return {row["timestamp"] for row in rows}

    def goes_on(self, what, seconds=STORED_WITHIN_S):
        """Waits for a new row; the rows from before must still be there."""
        before, started = self.rows(), time.monotonic()
        wait(f"a row {what}", seconds, lambda: self.rows() - before)
        missing = before - self.rows()
        assert not missing, f"{what}: {len(missing)} of {len(before)} rows are gone"
        print(f"{what}: a new row after {time.monotonic() - started:.1f} s, {len(before)} kept")


def wait(what, seconds, is_so):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def main(program, library):
    service = Service(program, library)
    try:
        service.set_clock(0)
        service.start()
        # The next measurements are those after which old rows are deleted.
        wait("rows", 2 * PRUNE_EVERY, lambda: len(service.rows()) >= PRUNE_EVERY - 3)
        kept = service.rows()
        service.set_clock(2 * DAY_S)
        time.sleep(8)
        service.set_clock(0)
        service.goes_on("no longer two days ahead")
        assert kept <= service.rows(), "rows are gone"
        log = pathlib.Path(service.folder.name, "log").read_text()
        n_leaps = log.count("the clock leapt ahead")
        n_warnings = log.count('"level":"warn"')
        assert n_leaps == 1, f"{n_leaps} lines report one leap"
        assert n_warnings <= 5, f"{n_warnings} warnings"
    except BaseException:
        log = pathlib.Path(service.folder.name, "log")
        print(log.read_text()[-3000:] if log.exists() else "no log", file=sys.stderr)
        raise
    finally:
        if service.process is not None:
            service.stop()


main(*sys.argv[1:])
