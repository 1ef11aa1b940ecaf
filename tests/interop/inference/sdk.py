"""The npm package `@alloralabs/allora-sdk`, run by Node."""

import subprocess

import network as of
from consumer import SIGNER


def check(network):
    command = ["node", str(of.HERE / "sdk.mjs"), network.url, network.key, of.CONTRACT, SIGNER]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    print(ran.stdout, end="")
