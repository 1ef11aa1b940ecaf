"""Interrupts links between heads and workers, and checks the responses meanwhile and the time until workers
execute again.

    check.py program folder prefix-of-namespaces
"""

import pathlib
import subprocess
import sys
import threading
import time

from net import NODE_PORT, REST_PORT, SPIN, Cluster, wait_until

# Maximum time until a cluster has recovered: twice the interval of offers.
HEALED_WITHIN_S = 60
RUN_LIMIT_S = 4
# Timeout of roll calls.
CALL_S = 2
# Maximum time for a response. A head waits for a roll call, and then for at most two workers, each for
# the run limit and 2 s more.
ANSWERED_WITHIN_S = CALL_S + 2 * (RUN_LIMIT_S + 2) + 1
HELLO = pathlib.Path("../../../assets/functions/hello.wasm").resolve()


class Probe(threading.Thread):
    """Executes repeatedly on one worker, or on any, until the end of the test."""

    def __init__(self, head, function, worker=None):
        super().__init__(daemon=True)
        self.head, self.function, self.worker = head, function, worker
        self.results, self.is_over = [], False
        self.start()

    def run(self):
        config = {"timeout": CALL_S}
        if self.worker:
            config["selector"] = f"name={self.worker.name}"
        while not self.is_over:
            started = time.monotonic()
            status, _, _, took = self.head.execute(self.function, "hello.wasm", **config)
            self.results.append((started, status, took))
            time.sleep(0.25)

    def healed_after(self, moment):
        """Returns the time at which the first execution requested after `moment` succeeded."""
        ended = [at + took - moment for at, status, took in self.results if at >= moment and status == "200"]
        return ended[0] if ended else None

    def longest(self, since):
        return max((took for at, _, took in self.results if at >= since), default=0)

    def failures(self, since):
        return [status for at, status, _ in self.results if at >= since and status != "200"]


class Test:
    def __init__(self, program, folder, prefix):
        self.cluster, self.functions, self.wrong = Cluster(program, folder, prefix), {}, []
        spin = pathlib.Path(folder) / "spin.wasm"
        spin.write_bytes(SPIN)
        self.heads = [self.add_head(n) for n in (1, 2)]
        for head in self.heads:
            head.start()
        at = [wait_until(head.address, f"{head.name} listens") for head in self.heads]
        names = ["quick", "long", "longer", "down", "deaf", "moved", "steady", "spare"]
        self.workers = {name: self.add_worker(name, at) for name in names}
        for worker in self.workers.values():
            worker.start()
        for path in (HELLO, spin):
            for head in self.heads:
                self.add_function(head, path)
        self.function, self.spin = self.functions["hello.wasm"], self.functions["spin.wasm"]
        for head in self.heads:
            wait_until(lambda: self.all_answer(head), f"all workers answer {head.name}")
            # All workers install the other function, too.
            config = {"runtime": {"run_time": 10}, "number_of_nodes": len(names), "timeout": 5}
            head.execute(self.spin, "spin.wasm", **config)

    def add_head(self, number):
        name = f"head{number}"
        head = self.cluster.add_head(name, "--private-key", self.cluster.key(name))
        head.options = [*head.options, "--address", head.ip, "--run-limit", str(RUN_LIMIT_S)]
        return head

    def add_worker(self, name, addresses):
        worker = self.cluster.add(name, "--run-limit", str(RUN_LIMIT_S), "--attribute", f"name={name}")
        boot = [option for at in addresses for option in ("--boot-nodes", at)]
        worker.options = [*worker.options, *boot, "--port", str(NODE_PORT)]
        return worker

    def add_function(self, head, path):
        command = ["ip", "netns", "exec", head.space, self.cluster.program, "function", "add"]
        command += ["--head", f"http://127.0.0.1:{REST_PORT}", str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.functions[path.name] = told.strip()

    def all_answer(self, head, n=None):
        n = n or len(self.workers)
        _, _, peers, _ = head.execute(self.function, "hello.wasm", number_of_nodes=n, timeout=3)
        return len(peers) == len(self.workers)

    def lose_links(self):
        """Interrupts links of workers in several ways at the same time."""
        w = self.workers
        plan = {
            # The first three links are restored before, while and after the interruption is detected.
            "quick": (w["quick"].unplug, 8, w["quick"].plug_in),
            "long": (w["long"].unplug, 29, w["long"].plug_in),
            "longer": (w["longer"].unplug, 38, w["longer"].plug_in),
            "down": (w["down"].take_down, 20, w["down"].take_up),
            "deaf": (w["deaf"].deafen, 33, w["deaf"].undeafen),
            "moved": (w["moved"].move, 0, lambda: None),
        }
        probes = self.probe([w[name] for name in [*plan, "steady"]])
        time.sleep(2)
        spun = self.spin_on("long"), self.spin_on(None)
        time.sleep(0.5)
        began = time.monotonic()
        for lose, _, _ in plan.values():
            lose()
        back = {}
        for name, (_, lost_s, restore) in sorted(plan.items(), key=lambda item: item[1][1]):
            time.sleep(max(0, began + lost_s - time.monotonic()))
            restore()
            back.update({(head.name, name): time.monotonic() for head in self.heads})
        self.report(probes, back, began)
        for thread, what in zip(spun, ("on a worker that is lost", "with spares"), strict=True):
            thread.join()
            code, _, _, took = thread.result
            print(f"an execution under way {what}: {code} after {took:.1f} s")

    def lose_heads(self):
        """Interrupts the link of one head, and kills and restarts the other one meanwhile."""
        probes = self.probe(self.workers.values())
        time.sleep(1)
        began = time.monotonic()
        first, second = self.heads
        for head in self.heads:
            head.unplug()
        second.kill()
        second.start()
        wait_until(lambda: second.call("/api/v1/health")[0] == 200, "a head is back")
        back = {}
        for head, lost_s in ((second, 5), (first, 31)):
            time.sleep(max(0, began + lost_s - time.monotonic()))
            head.plug_in()
            back.update({(head.name, name): time.monotonic() for name in [*self.workers, "any"]})
        self.report(probes, back, began)

    def spin_on(self, name):
        """Runs an endless function on one worker, or on any. The outcome is in the thread's `result`."""
        config = {"timeout": CALL_S} | ({"selector": f"name={name}"} if name else {})
        thread = threading.Thread()

        def execute():
            thread.result = self.heads[0].execute(self.spin, "spin.wasm", **config)

        thread.run = execute
        thread.start()
        return thread

    def probe(self, workers):
        named = {worker.name: worker for worker in workers} | {"any": None}
        return {
            (head.name, name): Probe(head, self.function, worker)
            for head in self.heads
            for name, worker in named.items()
        }

    def report(self, probes, back, began):
        """Waits until all workers execute again, and prints how long it took since the times in `back`."""
        end = max(back.values()) + HEALED_WITHIN_S

        def are_healed():
            return all(probes[pair].healed_after(at) is not None for pair, at in back.items())

        while not are_healed() and time.monotonic() < end:
            time.sleep(0.2)
        for probe in probes.values():
            probe.is_over = True
        for probe in probes.values():
            probe.join()
        for (head, name), probe in sorted(probes.items()):
            longest, failures = probe.longest(began), probe.failures(began)
            codes = ", ".join(sorted(map(str, set(failures))))
            line = f"{head} {name:8} longest answer {longest:4.1f} s"
            line += f", {len(failures)} failed ({codes})" if failures else ""
            is_wrong = longest > ANSWERED_WITHIN_S
            if at := back.get((head, name)):
                healed = probe.healed_after(at)
                line += f", back after {'never' if healed is None else f'{healed:.1f} s'}"
                is_wrong |= healed is None or healed > HEALED_WITHIN_S
            else:
                # Workers that are reachable must execute the function.
                is_wrong |= bool(failures)
            print(line)
            if is_wrong:
                self.wrong.append(line)

    def check_roll_calls(self, when):
        """Roll calls find workers again by gossip."""
        for head in self.heads:
            started = time.monotonic()
            wait_until(lambda: self.all_answer(head, n=-1), f"{when}: {head.name} calls everyone")
            print(f"{when}: {head.name} calls everyone after {time.monotonic() - started:.1f} s")


def main():
    program, folder, prefix = sys.argv[1:]
    started = time.monotonic()
    test = Test(program, folder, prefix)
    print(f"started in {time.monotonic() - started:.1f} s")
    try:
        test.lose_links()
        test.check_roll_calls("after lost links")
        test.lose_heads()
        test.check_roll_calls("after lost heads")
    finally:
        for node in test.cluster.nodes:
            node.stop()
    print(f"{time.monotonic() - started:.0f} s in all")
    assert not test.wrong, "\n".join(test.wrong)


main()
