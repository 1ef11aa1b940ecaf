"""A worker behind NAT that knows one head executes for another head through it.

    relay.py program folder prefix-of-namespaces
"""

import pathlib
import re
import statistics
import subprocess
import sys
import time

from net import NODE_PORT, REST_PORT, Cluster, run, wait_until

HELLO = pathlib.Path("../../../assets/functions/hello.wasm").resolve()
# Number of measured executions.
RUNS = 20


def add_site(cluster):
    """Adds a worker behind a router with masquerading that rejects incoming connections."""
    router, worker = cluster.add("router"), cluster.add("worker")
    run("ip", "link", "del", worker.port)
    run("ip", "link", "add", "lan0", "netns", router.space, "type", "veth",
        "peer", "name", "eth0", "netns", worker.space)
    router.inside("ip", "addr", "add", "192.168.5.1/24", "dev", "lan0")
    router.inside("ip", "link", "set", "lan0", "up")
    worker.inside("ip", "addr", "add", "192.168.5.2/24", "dev", "eth0")
    worker.inside("ip", "link", "set", "eth0", "up")
    worker.inside("ip", "route", "add", "default", "via", "192.168.5.1")
    router.inside("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    router.inside("iptables", "-P", "FORWARD", "DROP")
    router.inside("iptables", "-A", "FORWARD", "-i", "lan0", "-j", "ACCEPT")
    state = ["-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"]
    router.inside("iptables", "-A", "FORWARD", "-i", "eth0", *state)
    router.inside("iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "eth0", "-j", "MASQUERADE")
    return worker


def add_head(cluster, name, *options):
    head = cluster.add_head(name, "--private-key", cluster.key(name))
    head.options = [*head.options, "--address", head.ip, *options]
    return head


def add_function(cluster, head):
    command = ["ip", "netns", "exec", head.space, cluster.program, "function", "add"]
    command += ["--head", f"http://127.0.0.1:{REST_PORT}", str(HELLO)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def executes(head, function, n=1):
    code, _, peers, _ = head.execute(function, "hello.wasm", number_of_nodes=n, timeout=2)
    return code == "200" and peers


def median_ms(head, function):
    took = [head.execute(function, "hello.wasm", timeout=2)[3] for _ in range(RUNS)]
    return 1000 * statistics.median(took)


def node_seen_by(head, peer):
    _, answer = head.call("/api/v1/nodes")
    return next((node for node in (answer or {}).get("nodes", []) if node["peer_id"] == peer), None)


def metric(head, name):
    status, text = head.call("/metrics", is_json=False)
    found = re.search(rf"^b7s_{name} (\d+)$", text or "", re.MULTILINE)
    return int(found[1]) if found else None


def check(cluster):
    relay = add_head(cluster, "relay", "--relay")
    relay.start()
    at = wait_until(relay.address, "the relay listens")
    worker = add_site(cluster)
    worker.options = ["--port", str(NODE_PORT), "--relay-through", at]
    worker.start()
    function = add_function(cluster, relay)
    (peer,) = wait_until(lambda: executes(relay, function), "the relay's own line carries work")
    print(f"the relay, to which the worker is connected: {median_ms(relay, function):.1f} ms")
    assert node_seen_by(relay, peer)["connected"] and "relay" not in node_seen_by(relay, peer)

    head = add_head(cluster, "head", "--boot-nodes", at)
    head.start()
    wait_until(lambda: head.call("/api/v1/health")[0] == 200, "the other head serves")
    add_function(cluster, head)
    assert not executes(head, function), "it reaches a worker behind NAT by itself"
    head.kill()
    head.options += ["--relay-through", at]
    started = time.monotonic()
    head.start()
    wait_until(lambda: executes(head, function) == [peer], "another head executes on the worker")
    print(f"another head executes {time.monotonic() - started:.1f} s after its start")
    wait_until(lambda: executes(head, function, n=-1) == [peer], "its roll call finds the worker")
    print(f"through the relay: {median_ms(head, function):.1f} ms")
    seen = node_seen_by(head, peer)
    assert seen["relay"] == node_seen_by(relay, seen["relay"])["peer_id"], seen
    counts = metric(relay, "relay_circuits"), metric(head, "node_peers_relayed")
    assert counts == (1, 1), counts
    listed = subprocess.run(
        ["ip", "netns", "exec", head.space, cluster.program, "nodes",
         "--head", f"http://127.0.0.1:{REST_PORT}"],
        check=True, capture_output=True, text=True,
    ).stdout
    assert re.search(rf"{peer}.*relayed", listed), listed

    relay.kill()
    relay.start()
    started = time.monotonic()
    wait_until(lambda: metric(head, "node_peers_relayed") == 0, "the other head has noticed")
    wait_until(lambda: executes(head, function) == [peer], "it executes again", within_s=60)
    print(f"it executes again {time.monotonic() - started:.1f} s after a restart of the relay")


def main():
    program, folder, prefix = sys.argv[1:]
    started = time.monotonic()
    cluster = Cluster(program, folder, prefix)
    check(cluster)
    print(f"{time.monotonic() - started:.0f} s in all")


main()
