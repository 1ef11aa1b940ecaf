"""Checks an inference service with tools of others: check.py PROGRAM [NAME]…

Starts a network on loopback, lets it learn, and lets each check loose on it.
"""

import consumer
import demo
import description
import queries
import sdk
from network import Network

from checks import run  # isort: skip (`network` tells where it is)

CHECKS = {
    "consumer": consumer.check,
    "demo": demo.check,
    "queries": queries.check,
    "sdk": sdk.check,
    # Goes last: it writes what it likes.
    "description": description.check,
}


if __name__ == "__main__":
    run(CHECKS, Network)
