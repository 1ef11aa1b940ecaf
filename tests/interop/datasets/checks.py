"""Runs checks of a service one after another, and prints their results."""

import sys
import time
import traceback


def run(checks, start):
    """Runs the `checks` that the command line names, or all: PROGRAM [NAME]….

    `start` starts the service of the program at the given path.
    """
    program, *names = sys.argv[1:]
    unknown = [name for name in names if name not in checks]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not one of {', '.join(checks)}")
    began = time.monotonic()
    service = start(program)
    print(f"ok start ({time.monotonic() - began:.1f} s)", flush=True)
    failed = []
    for name in names or checks:
        began = time.monotonic()
        try:
            checks[name](service)
            told = "ok"
        except Exception:
            traceback.print_exc()
            failed.append(name)
            told = "FAILED"
        print(f"{told} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    if failed:
        lines = [line for line in service.log().splitlines() if '"level":"info"' not in line]
        print("\n".join(lines[-20:]), file=sys.stderr)
    service.close()
    sys.exit(1 if failed else 0)
