"""A local stack in a temporary directory, which can be stopped and started again."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import triptych

MARKET = "synthetic_btcusd"
WITHIN_S = 120


class Stack:
    """`triptych up`, which the package finds by TRIPTYCH_DATA_DIR."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory(prefix="interop-python-")
        self.path = pathlib.Path(self.folder.name)
        self.process = None
        # The configuration of the user who runs the tests is hidden.
        for name in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
            del os.environ[name]
        os.environ |= {
            "HOME": self.folder.name, "XDG_CONFIG_HOME": f"{self.path}/config", "XDG_DATA_HOME": f"{self.path}/share",
            "TRIPTYCH_DATA_DIR": f"{self.path}/stack", "TRIPTYCH_KEYRING": "off",
        }

    def start(self):
        """Starts the stack, and waits until its market has rows. Returns the line that `up` printed."""
        with open(self.path / "log", "a") as log:
            command = [self.program, "up", "--json", "--data-dir", f"{self.path}/stack"]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stack did not start:\n{self.log()[-2000:]}")
        # The past of the market is stored before its first live row.
        deadline = time.monotonic() + WITHIN_S
        while len(triptych.latest(MARKET, 5, frame="arrow")) < 5:
            assert time.monotonic() < deadline, f"the market has no rows:\n{self.log()[-2000:]}"
            time.sleep(0.2)
        return json.loads(line)

    def stop(self):
        """Stops the stack, and waits until it has exited."""
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def close(self):
        """Stops the stack and deletes its directory."""
        self.stop()
        self.folder.cleanup()

    def log(self):
        return (self.path / "log").read_text()

    def command(self, *arguments):
        """Runs a command of the program and returns its standard output."""
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def json(self, path, **query):
        """Returns the response of the inference service."""
        return triptych.Client().inference.get_json(path, query)
