"""The program in an emulated terminal: keys in, text out."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pyte

# Escape sequences that pyte would print as text: private modes, titles and queries.
UNKNOWN = re.compile(
    rb"\x1b\[[<>=?][0-9;]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\"
    rb"|\x1b\[[0-9;]*n|\x1b\[[0-9;]* q"
)


class Terminal:
    """Runs a command on `columns` times `rows` cells."""

    def __init__(self, command, environment, columns=200, rows=60):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, environment)
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, size)

    def read(self, seconds):
        """Reads the output of the program for `seconds`."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.file], [], [], left)[0]:
                continue
            data = os.read(self.file, 65536)
            if b"\x1b[c" in data or b"\x1b[0c" in data:
                os.write(self.file, b"\x1b[?62;22c")
            self.stream.feed(UNKNOWN.sub(b"", data))

    def text(self):
        """Returns the text of the screen with plain spaces in numbers."""
        text = "\n".join(line.rstrip() for line in self.screen.display)
        return re.sub("[\u00a0\u2009\u202f]", " ", text)

    def wait(self, pattern, seconds=120):
        """Waits until the text matches, and returns the match."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text())):
            assert time.monotonic() < end, f"{pattern} is not in\n{self.text()}"
            self.read(0.1)
        return found

    def press(self, keys, seconds=0.5):
        os.write(self.file, keys.encode())
        self.read(seconds)

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + 30
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            try:
                self.read(0.1)
            except OSError:
                time.sleep(0.1)
