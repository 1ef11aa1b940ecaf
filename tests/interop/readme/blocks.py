"""Runs the code blocks of README.md in order, as a newcomer would type them.

All blocks share one shell in a directory with copies of the files that they name. Services run in the
background until the end. Commands that print endlessly are stopped after their first output. The screen
runs in a pseudo-terminal and is quit. Addresses of other machines are replaced by loopback.
"""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Maximum time until the first epoch of a topic.
WITHIN_S = 180

# Replacements for addresses on other machines.
ELSEWHERE = [
    ("http://10.0.0.5", "http://127.0.0.1"),
    ("/ip4/10.0.0.5/", "/ip4/127.0.0.1/"),
    ("https://example.org/api", "http://127.0.0.1:8081/api"),
    ("https://example.org", "http://127.0.0.1:8082"),
]

# Beginnings of commands that start services, with the output that shows that the service is ready.
SERVERS = [
    (r"triptych up\b", r"^API key"),
    (r"triptych node .*--role head", r'"Node API starting"'),
    (r"triptych node ", r'"peer connected"'),
    (r"triptych datasets serve", r'"dataset service listening"'),
    (r"triptych inference serve", r'"inference service listening"'),
]

# Beginnings of commands that print endlessly, with the output that shows that they work.
ENDLESS = [
    (r"curl -N ", r"^data:"),
    (r"triptych datasets follow", r"^\d"),
    (r"triptych watch", r"watching \d+ rules?"),
    (r"triptych inference work", r"nonce \d+: \S+="),
]

# Beginnings of commands that open the screen.
SCREEN = [r"triptych( --profile \w+)?$"]

# Beginnings of commands that other steps of `.ci/run` execute already.
DONE_ELSEWHERE = [
    "cargo install", "cargo run --release", "cargo test", "pip install", "python3 -c",
]

# Beginnings of commands that are retried until they succeed, since they need an epoch that has closed.
EVENTUAL = [r"triptych inference show"]


class Failed(Exception):
    """A block that fails."""


def blocks(text):
    """Returns line, language and text of each code block."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        line = text.count("\n", 0, found.start()) + 1
        yield line, found[1], found[2]


def commands(block):
    """Splits a block into commands of one or more lines."""
    pending = ""
    for line in block.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip() or pending.strip().startswith("#"):
            pending = ""
            continue
        checked = subprocess.run(["bash", "-n", "-c", pending], capture_output=True, text=True)
        is_whole = checked.returncode == 0 and "here-document" not in checked.stderr
        if is_whole and not line.endswith("\\"):
            yield pending
            pending = ""
    if pending:
        raise Failed(f"not a whole command: {pending}")


def matching(rules, command):
    """Returns the value of the first rule that matches the command without its variables."""
    bare = re.sub(r"^(\w+=(\$\([^)]*\)|\S*) +)+(?=\S)", "", command)
    bare = re.sub(r"\s+#.*$", "", bare)
    for rule in rules:
        pattern, said = rule if isinstance(rule, tuple) else (rule, True)
        if re.match(pattern, bare):
            return said
    return None


class Shell:
    """A bash whose variables persist between blocks."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.n_jobs = 0
        self.process = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
        )

    def run(self, command, stdin="/dev/null"):
        """Runs a command, and returns exit code and output."""
        wrapped = f"{{ {command}\n}} < {stdin}\nprintf '\\n<<%d>>\\n' $?\n"
        self.process.stdin.write(wrapped)
        printed = []
        for line in self.process.stdout:
            ended = re.fullmatch(r"<<(\d+)>>\n", line)
            if ended:
                return int(ended[1]), "".join(printed)
            printed.append(line)
        raise Failed("the shell ended")

    def start(self, command):
        """Starts a command in the background, and returns its job number and output file."""
        self.n_jobs += 1
        log = pathlib.Path(self.folder) / f"job-{self.n_jobs}.log"
        log.touch()
        code, pid = self.run(f"{{ {command}\n}} </dev/null >{log} 2>&1 &\necho $!")
        if code:
            raise Failed(pid)
        return int(re.findall(r"\d+", pid)[-1]), log


def end(pid):
    """Stops a process and its descendants."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = dict(map(int, line.split()) for line in listed.stdout.splitlines())
    ended = {pid}
    while more := {child for child, parent in parents.items() if parent in ended} - ended:
        ended |= more
    for one in ended:
        try:
            os.kill(one, signal.SIGTERM)
        except ProcessLookupError:
            continue


def wait_for(log, pattern, pid):
    """Waits until a line of the log matches the pattern."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if re.search(pattern, text, re.M):
            return
        time.sleep(0.1)
    raise Failed(f"it never printed {pattern}; it printed:\n{log.read_text(errors='replace')[-4000:]}")


def open_screen(program, arguments, folder, environment):
    """Opens the screen in a pseudo-terminal, waits for its first frame, and quits."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(program, [program, *arguments], {**environment, "TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shown, deadline, quit_at = b"", time.monotonic() + WITHIN_S, None
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
        if b"Cluster" in shown and (quit_at is None or time.monotonic() > quit_at):
            # The screen may ask for a confirmation.
            quit_at = time.monotonic() + 3
            os.write(terminal, b"q")
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if status or b"Cluster" not in shown:
        raise Failed(f"the screen ended with {status}: {shown[-2000:]!r}")


def run_command(shell, command, program, environment):
    """Runs one command according to its rule."""
    if matching(SCREEN, command):
        arguments = command.split("#")[0].split()[1:]
        return open_screen(program, arguments, shell.folder, environment)
    ready = matching(SERVERS, command)
    if ready:
        pid, log = shell.start(command)
        return wait_for(log, ready, pid)
    enough = matching(ENDLESS, command)
    if enough:
        # jq buffers lines unless it writes to a terminal.
        pid, log = shell.start(command.replace("| jq ", "| jq --unbuffered "))
        wait_for(log, enough, pid)
        return end(pid)
    stdin = "/dev/null"
    if "keys store" in command:
        stdin = '<(echo "${KEY:-}")'
    deadline = time.monotonic() + (WITHIN_S if matching(EVENTUAL, command) else 0)
    while True:
        code, printed = shell.run(command, stdin)
        has_failed = code != 0 or ("curl" in command and '"code":' in printed)
        if not has_failed:
            return None
        if time.monotonic() >= deadline:
            raise Failed(f"it ended with {code} and printed:\n{printed[-4000:]}")
        time.sleep(1)


def main(program):
    """Runs all blocks, and returns the exit code."""
    readme = (ROOT / "README.md").read_text()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="triptych-readme-"))
    (folder / "home/.config").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "work").mkdir()
    for name in ["triptych", "tui"]:
        (folder / "bin" / name).symlink_to(program)
    (folder / "work/assets").symlink_to(ROOT / "assets")
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder / "home"),
        "LANG": "C.UTF-8", "TRIPTYCH_KEYRING": "off",
    }
    shell = Shell(folder / "work", environment)
    n_run, is_well = 0, False
    try:
        for line, language, block in blocks(readme):
            for written, here in ELSEWHERE:
                block = block.replace(written, here)
            named = re.match(r"# ~/(\S+)", block)
            if language == "toml" and named:
                path = folder / "home" / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block)
            if language != "sh":
                continue
            for command in commands(block):
                if any(command.startswith(done) for done in DONE_ELSEWHERE):
                    continue
                started = time.monotonic()
                try:
                    run_command(shell, command, program, environment)
                except Failed as failed:
                    print(f"README.md:{line}: does not run as written: {command}\n{failed}")
                    return 1
                n_run += 1
                print(f"readme: {time.monotonic() - started:5.1f} s  {command.splitlines()[0][:90]}", flush=True)
        is_well = True
    finally:
        end(shell.process.pid)
        if is_well:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"readme: the logs are in {folder / 'work'}")
    print(f"readme: all {n_run} commands of README.md run as written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
