"""The local stack of the screen: addresses and responses of its services."""

import json
import os
import shlex
import subprocess
import tempfile
import time
import urllib.request

from terminal import Terminal


class Stack:
    """The screen with its local stack in a temporary home directory."""

    def __init__(self, program):
        self.program = program
        self.home = tempfile.TemporaryDirectory()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "TRIPTYCH_"))}
        self.environment = dict(
            kept, HOME=self.home.name, TERM="xterm-256color", COLORTERM="truecolor", LANG="C.UTF-8"
        )
        self.terminal = Terminal([program], self.environment)
        self.terminal.wait(r"● worker-3.*\n[^\n]*", 180)
        self.addresses = self.wait_for_addresses()

    def wait_for_addresses(self):
        command = [self.program, "env"]
        end = time.monotonic() + 120
        while True:
            text = subprocess.run(
                command, env=self.environment, capture_output=True, text=True, check=False
            ).stdout
            pairs = (word.split("=", 1) for word in shlex.split(text) if "=" in word)
            addresses = dict(pairs)
            if {"HEAD", "DATASETS", "INFERENCE", "KEY"} <= addresses.keys():
                return addresses
            assert time.monotonic() < end, text
            self.terminal.read(0.5)

    def get(self, service, path):
        return json.loads(self.read(service, path))

    def newest(self, dataset, limit):
        """Returns the latest rows of a dataset."""
        lines = self.read("DATASETS", f"/rows/live/?dataset={dataset}&limit={limit}").splitlines()
        return [json.loads(line) for line in lines if line.strip()]

    def read(self, service, path):
        request = urllib.request.Request(
            self.addresses[service] + path, headers={"X-API-Key": self.addresses["KEY"]}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()

    def close(self):
        self.terminal.close()
        self.home.cleanup()
