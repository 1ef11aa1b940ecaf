"""Tests that errors say what is wrong and what to do, and contain no key."""

import http.server
import os
import pathlib
import threading

import triptych
from stack import MARKET


def expect(call, *parts):
    """Returns the error that `call` raises, whose text has all `parts`."""
    try:
        call()
    except triptych.TriptychError as error:
        missing = [part for part in parts if part not in str(error)]
        assert not missing, f"{missing} are not in: {error}"
        return error
    raise AssertionError(f"nothing was raised, expected {parts}")


def missing_stack_is_explained(stack):
    text = ("no local stack runs", "triptych up", "TRIPTYCH_API_KEY")
    for call in (
        lambda: triptych.rows(MARKET),
        lambda: next(triptych.follow(MARKET)),
        lambda: triptych.insert("x", [{"timestamp": "2026-01-01", "a": 1}]),
        lambda: triptych.history(1),
        lambda: triptych.run("hello"),
        lambda: triptych.worker(topic=1)(len).run(),
    ):
        assert isinstance(expect(call, *text), triptych.NoStackError)
    # If no process holds the lock, the record is that of a stack that was killed.
    folder = stack.path / "stack"
    folder.mkdir(mode=0o700)
    (folder / "running.json").write_text('{"api_key": "UP-000000000000000000000000"}')
    (folder / "lock").touch()
    expect(lambda: triptych.rows(MARKET), *text)
    client = triptych.Client(datasets="http://127.0.0.1:1/api", key="UP-000000000000000000000000")
    expect(lambda: triptych.rows(MARKET, client=client), "cannot reach the dataset service at http://127.0.0.1:1")


def configuration_is_found(stack):
    local = triptych.Client().services()
    config = stack.path / "config/triptych"
    (config / "keys").mkdir(parents=True)
    text = f'[profiles.lab]\nhead = ["{local.head}"]\ndatasets = "{local.datasets}"\n'
    (config / "config.toml").write_text(text)
    key = config / "keys/lab"
    key.write_text(local.key)
    key.chmod(0o644)
    lab = triptych.Client("lab")
    expect(lambda: triptych.latest(MARKET, 1, client=lab), "other users can read", "chmod 600")
    key.chmod(0o600)
    assert len(triptych.latest(MARKET, 1, client=lab)) == 1
    assert triptych.Client("lab").services().inference == "http://127.0.0.1:8082"
    expect(lambda: triptych.rows(MARKET, client=triptych.Client("moon")), "unknown profile `moon`", "lab")
    named = {"TRIPTYCH_DATASETS": local.datasets, "TRIPTYCH_API_KEY": local.key}
    os.environ |= named
    try:
        found = triptych.Client().services()
        assert (found.datasets, found.key, found.is_local) == (local.datasets, local.key, False)
    finally:
        for name in named:
            del os.environ[name]
    assert triptych.Client().services().is_local
    assert triptych.Client(datasets=local.datasets, inference=f"{local.inference}/").services().key == local.key
    assert triptych.Client(datasets=local.datasets, inference="http://127.0.0.1:1").services().key is None
    assert triptych.Client(head=local.head).services().key is None
    pathlib.Path(config / "config.toml").unlink()


def refusals_are_explained(_):
    local = triptych.Client().services()
    wrong = triptych.Client(datasets=local.datasets, key="UP-000000000000000000000000")
    error = expect(lambda: triptych.rows(MARKET, client=wrong), "API key", "triptych keys create")
    assert (error.status, wrong.services().key in str(error)) == (401, False)
    error = expect(lambda: triptych.rows(MARKET, client=triptych.Client(key="secret")), "not an API key")
    assert "secret" not in str(error)
    expect(lambda: triptych.rows("nothing"), "dataset not found")
    expect(lambda: triptych.rows(MARKET, resolution="often"), "resolution")
    expect(lambda: triptych.rows(MARKET, columns=["clsoe"]), "clsoe")
    for library in ("pandas", "polars", "arrow"):
        expect(lambda: triptych.rows(MARKET, columns=["close", "close"], frame=library), "`close` is named twice")
    expect(lambda: next(triptych.follow(MARKET, columns=["close", "close"])), "`close` is named twice")
    expect(lambda: triptych.rows(MARKET, columns="close"), "expected a list of names")
    expect(lambda: triptych.rows(MARKET, columns=[0]), "expected a list of names")
    expect(lambda: triptych.rows(MARKET, "2026-02-01", "2026-01-01"), "start 2026-02-01T00:00:00Z is after end")
    expect(lambda: triptych.rows(MARKET, "yesterday"), "'yesterday' is not a time", "2026-07-01")
    expect(lambda: triptych.rows(MARKET, frame="excel"), "choose pandas, polars or arrow")
    expect(lambda: next(triptych.follow("nothing")), "dataset not found")
    expect(lambda: triptych.history(99), "topic 99 not found")
    expect(lambda: triptych.worker(topic=99)(len).run(), "topic 99 does not exist: the service has 1, 2")
    for topic in (len, "1"):
        expect(lambda: triptych.worker(topic), "is not the number of a topic: write @triptych.worker(topic=1)")
    expect(lambda: triptych.worker(topic=1)(dict), "is not a function")
    expect(lambda: triptych.run("nothing"), "no function nothing", "hello")
    expect(lambda: triptych.run("nothing.wasm"), "cannot read nothing.wasm")
    expect(lambda: triptych.run("hello", stdin=b"bytes"), "not JSON", "bytes")
    expect(lambda: triptych.insert("", [{"timestamp": "2026-01-01"}]), "'' is not a dataset")


def wrong_services_are_explained(_):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html></html>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        client = triptych.Client(datasets=address, inference=address)
        for call in (
            lambda: triptych.rows("x", client=client),
            lambda: triptych.follow("x", client=client),
            lambda: triptych.insert("x", [{"timestamp": "2026-01-01", "a": 1}], client=client),
            lambda: triptych.history(1, client=client),
            lambda: triptych.leaderboard(1, client=client),
        ):
            expect(call, "the response", "check", "address")
        server.shutdown()
