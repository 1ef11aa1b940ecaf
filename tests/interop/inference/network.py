"""A prediction network: a changing dataset, topics, and workers that submit."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import requests

HERE = pathlib.Path(__file__).parent
# The tests of both services start and query them with the same code.
sys.path.insert(0, str(HERE.parent / "datasets"))

from service import STARTS_WITHIN_S, Service, free_port, moment  # noqa: E402

FIRST_S = 1_785_196_800  # 2026-07-28T00:00:00Z
DATASET = "walk"
BLOCK_MS = 150
EPOCH_BLOCKS = 12
# Number of topics, which do not fit on one page.
N_TOPICS = 104
PRICES = {"BTC/8h": 1, "ETH/5m": 1}
CHAIN = "ethereum-11155111"
CONTRACT = "0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6"
# A private key for tests, which is publicly known.
SIGNER_KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
SETTLES_WITHIN_S = 90


class Network:
    """An inference and a dataset service with threads that write to both until they are closed."""

    def __init__(self, program):
        self.program = program
        self.datasets = Service(program)
        self.datasets.start()
        self.key = self.datasets.owner
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = pathlib.Path(self.datasets.folder.name)
        self.is_open = True
        self.process = None
        self.start(program)
        self.datasets.acquire()
        self.dataset = self.datasets.create(DATASET, {"value": "float", "debt": "float"})
        self.threads = [threading.Thread(target=self.move, daemon=True)]
        self.topics()
        self.threads += [threading.Thread(target=self.work, daemon=True)]
        for thread in self.threads:
            thread.start()
        self.settle()

    def start(self, program):
        key_file = self.folder / "signer"
        key_file.write_text(SIGNER_KEY)
        command = [program, "inference", "serve", "--data-dir", str(self.folder)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--block-time-ms", str(BLOCK_MS)]
        command += ["--datasets", f"{self.datasets.url}/api", "--head", "http://127.0.0.1:1"]
        command += ["--consumer", f"{CHAIN}={CONTRACT}", "--signer-key", str(key_file)]
        for price, topic in PRICES.items():
            command += ["--price", f"{price}={topic}"]
        command += ["--unlimited-loopback", "--workers-per-account", "12"]
        log = open(self.folder / "inference.log", "a")
        environment = os.environ | {"TRIPTYCH_API_KEY": self.key}
        options = {"stdin": subprocess.DEVNULL, "env": environment}
        self.process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                requests.get(f"{self.url}/health", timeout=5).raise_for_status()
                return
            except requests.RequestException:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(f"it did not start:\n{self.log()[-2000:]}") from None
                time.sleep(0.02)

    def call(self, method, path, **options):
        headers = {"x-api-key": self.key}
        return requests.request(method, self.url + path, headers=headers, timeout=30, **options)

    def get(self, path):
        answer = self.call("GET", path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def topics(self):
        """Creates topics: 1 predicts a number, 2 several labels, 3 a negative number. The others are paused."""
        of = {"dataset": DATASET, "horizon_seconds": 60, "epoch_length": EPOCH_BLOCKS}
        of |= {"worker_submission_window": 10, "min_experienced": 2}
        direction = {"column": "value", "direction_threshold": "0.001", "require_unity": True}
        topics = [
            {"metadata": "value", "column": "value"},
            {"metadata": "direction", "topic_type": "classification"} | direction,
            {"metadata": "debt", "column": "debt"},
        ]
        topics += [{"metadata": f"asleep {n}", "column": "value"} for n in range(4, N_TOPICS + 1)]
        for number, topic in enumerate(topics, 1):
            made = self.call("POST", "/api/v1/topics", json=of | topic)
            assert made.status_code == 200 and made.json()["topic"]["id"] == str(number), made.text
            if number > 3:
                rest = self.call("PUT", f"/api/v1/topics/{number}/active", json={"active": False})
                assert rest.status_code == 200, rest.text

    def move(self):
        """Inserts the row of the next minute every half second."""
        for minute in range(1_000_000):
            if not self.is_open:
                return
            at = moment(FIRST_S + 60 * minute)
            row = {"timestamp": at, "value": 100 + minute % 7 * 0.37, "debt": -5 - minute % 3}
            self.datasets.insert(self.dataset, [row])
            time.sleep(0.5)

    def work(self):
        """Submits as three inferers and two forecasters to every open topic."""
        values = {1: "101.{}0", 3: "-6.{}"}
        done, addresses = set(), {}
        while self.is_open:
            for topic in self.get("/api/v1/topics")["topics"][:3]:
                number, closes = topic["topic_id"], topic["close_height"]
                if closes is None or (number, closes) in done:
                    continue
                done.add((number, closes))
                for n in range(3):
                    parts = {"up": f"0.{n + 1}", "down": f"0.{5 - n}", "flat": "0.4"}
                    value = {"value": values[number].format(n)} if number in values else {"values": parts}
                    told = self.submit(number, {"model": f"m{n}"} | value)
                    addresses[n] = told.get("worker", addresses.get(n))
                for n in range(2):
                    losses = {addresses[m]: f"-{m}.{n}" for m in range(3) if addresses.get(m)}
                    self.submit(number, {"model": f"f{n}", "forecast": losses})
            time.sleep(0.05)

    def submit(self, topic, body):
        answer = self.call("POST", f"/api/v1/topics/{topic}/submissions", json=body)
        # The window may have closed in the meantime.
        assert answer.status_code in (200, 400, 409), answer.text
        return answer.json()

    def settle(self):
        """Waits until every topic has known losses and forecasters."""
        end = time.monotonic() + SETTLES_WITHIN_S
        missing = "everything"
        while missing:
            assert time.monotonic() < end, f"{missing} is missing\n{self.log()[-3000:]}"
            topics = self.get("/api/v1/topics")["topics"][:3]
            roles = [sum(actor["role"] == "forecaster" for actor in topic["actors"]) for topic in topics]
            missing = [n for n, topic in zip(roles, topics) if n < 2 or topic["n_learned"] < 3]
            time.sleep(0.2)

    def log(self):
        return (self.folder / "inference.log").read_text()

    def close(self):
        self.is_open = False
        for thread in self.threads:
            thread.join()
        self.process.kill()
        self.process.wait()
        self.datasets.kill()
