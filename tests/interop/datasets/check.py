"""Checks a dataset service with tools of others: check.py PROGRAM [NAME]…

Starts the service on loopback with rows of its own making, and lets each check loose on it.
"""

import sys
import time
import traceback

import compressed
import formats
import kit
import rows
import schema
import stream
from service import Service

CHECKS = {
    "kit": kit.check,
    "formats": formats.check,
    "compressed": compressed.check,
    "stream": stream.check,
    "schema": schema.check,
}


def main():
    program, *names = sys.argv[1:]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not one of {', '.join(CHECKS)}")
    service = Service(program)
    service.start()
    rows.fill(service)
    failed = []
    for name in names or CHECKS:
        began = time.monotonic()
        try:
            CHECKS[name](service)
            told = "ok"
        except Exception:
            traceback.print_exc()
            failed.append(name)
            told = "FAILED"
        print(f"{told} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    if failed:
        lines = [line for line in service.log().splitlines() if '"level":"info"' not in line]
        print("\n".join(lines[-20:]), file=sys.stderr)
    service.kill()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
