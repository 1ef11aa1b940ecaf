"""Network namespaces on a bridge, and the nodes in them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

REST_PORT, NODE_PORT = 8080, 9527
LISTENS = re.compile(r"(/ip4/[0-9.]+/tcp/[0-9]+/p2p/[0-9A-Za-z]+)")
# Timeout of a request to a head.
CLIENT_GIVES_UP_S = 40
# An endless module: `(loop br 0)`.
SPIN = bytes.fromhex(
    "0061736d01000000010401600000030201000503010001071302066d656d6f72790200065f73746172740000"
    "0a0901070003400c000b0b"
)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Node:
    """A node in its own namespace. `eth0` is on the bridge of the cluster. A head has `ctl0` for its clients."""

    def __init__(self, cluster, number, name, options):
        self.cluster, self.number, self.name, self.options = cluster, number, name, options
        self.space, self.ip = f"{cluster.prefix}-{name}", f"10.77.0.{number}"
        self.port, self.control_ip = f"p{number}", f"10.78.{number}.2"
        self.folder = pathlib.Path(cluster.folder) / name
        self.folder.mkdir()
        self.log = self.folder / "log"
        run("ip", "netns", "add", self.space)
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        run("ip", "link", "set", self.port, "master", "br0", "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "link", "set", "eth0", "up")
        self.inside("ip", "addr", "add", f"{self.ip}/16", "dev", "eth0")

    def add_control(self):
        port = f"c{self.number}"
        run("ip", "link", "add", port, "type", "veth", "peer", "name", "ctl0", "netns", self.space)
        run("ip", "link", "set", port, "up")
        run("ip", "addr", "add", f"10.78.{self.number}.1/24", "dev", port)
        self.inside("ip", "link", "set", "ctl0", "up")
        self.inside("ip", "addr", "add", f"{self.control_ip}/24", "dev", "ctl0")

    def inside(self, *command):
        run("ip", "netns", "exec", self.space, *command)

    def start(self):
        command = [self.cluster.program, "node", "--db", self.folder / "db"]
        command += ["--gateways", "none", *self.options]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.space, *map(str, command)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def lines(self, text):
        return [line for line in self.log.read_text().splitlines() if text in line]

    def address(self):
        """Returns its multiaddress on the bridge."""
        found = LISTENS.findall(self.log.read_text())
        return next((at for at in found if f"/ip4/{self.ip}/" in at), None)

    # Ways to drop packets without notifying either side.

    def unplug(self):
        run("ip", "link", "set", self.port, "down")

    def plug_in(self):
        run("ip", "link", "set", self.port, "up")

    def take_down(self):
        self.inside("ip", "link", "set", "eth0", "down")

    def take_up(self):
        self.inside("ip", "link", "set", "eth0", "up")

    def deafen(self):
        self.inside("iptables", "-A", "INPUT", "-i", "eth0", "-j", "DROP")

    def undeafen(self):
        self.inside("iptables", "-D", "INPUT", "-i", "eth0", "-j", "DROP")

    def move(self):
        """Replaces its address."""
        self.inside("ip", "addr", "flush", "dev", "eth0")
        self.ip = f"10.77.1.{self.number}"
        self.inside("ip", "addr", "add", f"{self.ip}/16", "dev", "eth0")

    # Requests to a head.

    def call(self, path, body=None, is_json=True):
        """Returns status and response. The status is None after a timeout."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.control_ip}:{REST_PORT}{path}", data, {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=CLIENT_GIVES_UP_S) as answer:
                return answer.status, json.load(answer) if is_json else answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")
        except (OSError, TimeoutError):
            return None, None

    def execute(self, function, method, **config):
        """Returns code, response, workers and duration."""
        started = time.monotonic()
        body = {"function_id": function, "method": method, "config": config}
        status, answer = self.call("/api/v1/functions/execute", body)
        answer = answer or {}
        peers = answer.get("cluster", {}).get("peers") or []
        return answer.get("code", status), answer, peers, time.monotonic() - started


class Cluster:
    """The bridge in the namespace of this process, and its nodes."""

    def __init__(self, program, folder, prefix):
        self.program, self.folder, self.prefix, self.nodes = program, folder, prefix, []
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "br0", "up")

    def add(self, name, *options):
        node = Node(self, len(self.nodes) + 2, name, options)
        self.nodes.append(node)
        return node

    def add_head(self, name, *options):
        rest = ["--role", "head", "--rest-api", f":{REST_PORT}", "--port", str(NODE_PORT)]
        head = self.add(name, *rest, *options)
        head.add_control()
        return head

    def key(self, name):
        """Creates a private key, so that a node keeps its identity over restarts."""
        folder = pathlib.Path(self.folder) / f"{name}-key"
        run(self.program, "keys", "node", "--output", str(folder))
        return folder / "priv.bin"


def wait_until(is_so, what, within_s=30):
    end = time.monotonic() + within_s
    while True:
        if found := is_so():
            return found
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.1)
