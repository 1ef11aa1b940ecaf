"""Suspends each service in turn, and checks that every screen shows within seconds that it does not respond:
stopped.py PROGRAM

A suspended process keeps its connections open, but does not respond.
"""

import os
import re
import signal
import sys
import time

from service import Stack

# Keys of the screens that use each service, by the service's name in the header.
SHOWN = {"head": "10", "data": "30", "infer": "40"}
PROCESS = {"head": "head", "data": "datasets", "infer": "inference"}
# Maximum time until a screen must show the failure.
WITHIN_S = 5
# Additional time for drawing and reading the screen.
SLACK_S = 10


def age(terminal, service):
    """Returns the age of the last response that the screen shows for a service that does not respond."""
    found = re.search(r"not responding, (\d+) s", terminal.text())
    return int(found.group(1)) if found else None


def check(stack, service):
    terminal = stack.terminal
    terminal.press("1", 2)
    pid = int(terminal.wait(rf"● {PROCESS[service]} +(\d+) ").group(1))
    for screen in SHOWN[service]:
        terminal.press(screen, 3)
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            terminal.wait(r"not responding, \d+ s", 30)
            seconds = time.monotonic() - stopped
            first = age(terminal, service)
            terminal.read(4)
            later = age(terminal, service)
            text = terminal.text()
        finally:
            os.kill(pid, signal.SIGCONT)
        print(f"{service} stopped, screen {screen}: shown after {seconds:.1f} s, {first} s, then {later} s")
        assert seconds <= WITHIN_S + SLACK_S, text
        assert later is not None and later > first, f"the age stands still:\n{text}"
        end = time.monotonic() + 60
        while age(terminal, service) is not None:
            assert time.monotonic() < end, terminal.text()
            terminal.read(0.5)


def main():
    stack = Stack(sys.argv[1])
    try:
        stack.terminal.press("4", 1)
        stack.terminal.wait(r"combined", 180)
        for service in SHOWN:
            check(stack, service)
    finally:
        stack.close()


if __name__ == "__main__":
    main()
