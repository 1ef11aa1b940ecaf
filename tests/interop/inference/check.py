"""Checks an inference service with third-party clients: check.py PROGRAM [NAME]…

Starts a network on loopback, lets it learn, and runs each check on it.
"""

import consumer
import description
import queries
import sdk
from network import Network

from checks import run  # isort: skip (`network` tells where it is)

CHECKS = {
    "consumer": consumer.check,
    "queries": queries.check,
    "sdk": sdk.check,
    # This check is last, since it writes arbitrary data.
    "description": description.check,
}


if __name__ == "__main__":
    run(CHECKS, Network)
