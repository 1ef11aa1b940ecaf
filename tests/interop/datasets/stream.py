"""Third-party clients of server-sent events, over a crash and a restart of the service."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

import httpx
import httpx_sse
import requests
import sseclient

from service import moment

HERE = pathlib.Path(__file__).parent
FIRST_S = 1_785_456_000
WITHIN_S = 60


class Heard:
    """Received rows in order with their ids."""

    def __init__(self, name):
        self.name, self.rows, self.ids, self.n_connected = name, [], [], 0
        self.lock, self.ended = threading.Lock(), False

    def event(self, name, data, last_id):
        with self.lock:
            if name == "connected":
                self.n_connected += 1
            elif name == "reset":
                raise AssertionError(f"{self.name}: the stream was reset")
            elif name == "data":
                self.rows.append(json.loads(data))
                self.ids.append(last_id)


def with_httpx(service, dataset, heard):
    """Follows with httpx-sse, which does not reconnect."""
    headers = {"X-API-Key": service.reader}
    while not heard.ended:
        try:
            with httpx.Client(timeout=httpx.Timeout(5, read=40)) as client:
                with httpx_sse.connect_sse(
                    client, "GET", f"{service.url}/api/rows/stream/", params={"dataset": dataset}, headers=headers
                ) as source:
                    source.response.raise_for_status()
                    for event in source.iter_sse():
                        heard.event(event.event, event.data, event.id)
                        if event.id:
                            headers["Last-Event-ID"] = event.id
                        if heard.ended:
                            return
        except httpx.HTTPError:
            time.sleep(0.1)


def with_sseclient(service, dataset, heard):
    """Follows with sseclient-py over requests."""
    headers = {"X-API-Key": service.reader, "Accept": "text/event-stream"}
    while not heard.ended:
        try:
            answer = requests.get(
                f"{service.url}/api/rows/stream/",
                params={"dataset": dataset},
                headers=headers,
                stream=True,
                timeout=(5, 40),
            )
            answer.raise_for_status()
            for event in sseclient.SSEClient(answer).events():
                heard.event(event.event, event.data, event.id)
                if event.id:
                    headers["Last-Event-ID"] = event.id
                if heard.ended:
                    return
        except requests.RequestException:
            time.sleep(0.1)


def with_node(service, dataset, heard):
    """Follows with the npm package eventsource, which reconnects."""
    url = f"{service.url}/api/rows/stream/?dataset={dataset}"
    environment = os.environ | {"API_KEY": service.reader}
    command = ["node", str(HERE / "stream.mjs"), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        heard.process = process
        for line in process.stdout:
            told = json.loads(line)
            heard.event(told["event"], told["data"], told["id"])


def wait(condition, what):
    end = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.02)


def check(service):
    dataset = service.create("followed", {"n": "integer"})
    row = lambda minute, n: {"timestamp": moment(FIRST_S + 60 * minute), "n": n}
    wanted = []

    def insert(minute, n):
        wanted.append(row(minute, n))
        service.insert(dataset, [wanted[-1]])

    for minute in range(5):
        insert(minute, minute)
    clients = {"httpx-sse": with_httpx, "sseclient-py": with_sseclient, "eventsource": with_node}
    everyone = {name: Heard(name) for name in clients}
    failures = queue.Queue()

    def run(name, client):
        try:
            client(service, dataset, everyone[name])
        except Exception as error:
            failures.put(f"{name}: {error!r}")

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in clients.items()]
    for thread in threads:
        thread.start()
    try:
        short = lambda: {name: f"{len(heard.rows)} of {len(wanted)}" for name, heard in everyone.items()}
        all_heard = lambda: all(len(heard.rows) >= len(wanted) for heard in everyone.values())
        wait(all_heard, short)
        for minute in range(5, 25):
            insert(minute, minute)
        wait(all_heard, short)
        service.kill()
        service.start()
        # New rows, a late row and a correction. Some of them are inserted before the clients reconnect.
        for minute in range(25, 40):
            insert(minute, minute)
        insert(-3, -3)
        insert(10, 1010)
        wait(lambda: all(heard.n_connected > 1 for heard in everyone.values()), short)
        for minute in range(40, 50):
            insert(minute, minute)
        wait(all_heard, short)
        # A duplicate would arrive immediately.
        insert(50, 50)
        wait(all_heard, short)
        for name, heard in everyone.items():
            with heard.lock:
                assert all(heard.ids), f"{name}: each row has an id"
                assert heard.rows == wanted, f"{name}: {heard.rows}\ninstead of\n{wanted}"
        assert failures.empty(), failures.get()
        print(f"   {len(wanted)} rows over a crash, each once and in order: {', '.join(clients)}")
    finally:
        for heard in everyone.values():
            heard.ended = True
            if hasattr(heard, "process"):
                heard.process.send_signal(signal.SIGTERM)
        # The row wakes the clients that are waiting.
        service.insert(dataset, [row(60, 60)])
        for thread in threads:
            thread.join(timeout=10)
    browser(service, dataset)


def browser(service, dataset):
    """Checks that streams accept the key as a query parameter, since EventSource of browsers sends no headers."""
    url = f"{service.url}/api/rows/stream/?dataset={dataset}&api_key={service.reader}"
    with requests.get(url, stream=True, timeout=10) as answer:
        assert answer.status_code == 200, answer.text
        assert next(sseclient.SSEClient(answer).events()).event == "connected"
    assert requests.get(f"{service.url}/api/tags/?api_key={service.reader}", timeout=10).status_code == 401
    assert service.reader not in service.log(), "no key is in the log"
