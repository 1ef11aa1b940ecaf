"""Checks an inference service with tools of others: check.py PROGRAM [NAME]…

Starts a network on loopback, lets it learn, and lets each check loose on it.
"""

import sys
import time
import traceback

import consumer
import description
import queries
import sdk
from network import Network

CHECKS = {
    "consumer": consumer.check,
    "queries": queries.check,
    "sdk": sdk.check,
    # Goes last: it writes what it likes.
    "description": description.check,
}


def main():
    program, *names = sys.argv[1:]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not one of {', '.join(CHECKS)}")
    began = time.monotonic()
    network = Network(program)
    print(f"ok network ({time.monotonic() - began:.1f} s)", flush=True)
    failed = []
    for name in names or CHECKS:
        began = time.monotonic()
        try:
            CHECKS[name](network)
            told = "ok"
        except Exception:
            traceback.print_exc()
            failed.append(name)
            told = "FAILED"
        print(f"{told} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    if failed:
        lines = [line for line in network.log().splitlines() if '"level":"info"' not in line]
        print("\n".join(lines[-20:]), file=sys.stderr)
    network.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
