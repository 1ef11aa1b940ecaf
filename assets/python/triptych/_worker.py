"""Functions as workers of a topic: what `triptych inference work` does, without a subprocess."""

from __future__ import annotations

import datetime as dt
import inspect
import numbers
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _frames
from ._answers import Answer, Submission, read_answer
from ._client import Client
from ._datasets import latest
from ._errors import ServiceError, TriptychError, UnreachableError
from ._http import Pauses

# First pause after a failure. Several attempts fit into a window of some seconds.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
# Maximum time until the topic is read again, since it may be paused, resumed or changed.
LOOK_EVERY_S = 5.0
LOOK_EVERY_MIN_S = 0.05
# Time at the end of a window that is reserved for submitting.
SUBMIT_WITHIN_S = 0.3


@dataclass(frozen=True)
class Epoch:
    """An epoch that takes submissions, for functions with a second parameter."""

    topic_id: int
    nonce: int
    """Block at which the epoch opened."""
    name: str
    """Description of the topic."""
    column: str
    """Column of the dataset that the topic predicts."""
    labels: list[str]
    """Labels of the values; `["y"]` on a topic with a single output."""
    actors: list[dict[str, Any]]
    """Actors of the latest bundle: address, role, name, weight, regret, loss and score."""
    closes_at: float
    """Time at which the window closes, as `time.monotonic()` has it."""
    opens_next_at: float
    """Time at which the next window opens, by `time.monotonic()`."""
    dataset: str | int

    @property
    def seconds_left(self) -> float:
        """Seconds that are left for an answer."""
        return self.closes_at - SUBMIT_WITHIN_S - time.monotonic()


def worker(
    topic: int,
    *,
    model: str | None = None,
    rows: int = 120,
    time_limit: float | None = None,
    frame: str | None = None,
    client: Client | None = None,
) -> Callable[[Callable[..., Answer]], Worker]:
    """Makes a function a worker of a topic. `run()` of the result works until it is interrupted.

    In each epoch the function gets the dataset's latest rows as a DataFrame, oldest first; with a second
    parameter also the `Epoch`. It returns

    - a number on a topic with one output,
    - numbers by label, `{"up": 0.5, "down": 0.3, "flat": 0.2}`, on a topic with labels,
    - `{"forecast": {"allo1...": -2.5}}`, the losses it expects of inferers, alone or with a `value`,
    - `None` for no submission.

    A function that raises or calls `sys.exit` is called again after a pause that grows, and with the next
    window at the latest. An answer that comes after its window is dropped.

    Args:
        topic: Number of the topic.
        model: Name of the worker, by default that of the function. Each name of a key has an address of
            its own; "" is the address of the key itself.
        rows: Number of rows that the function gets, from 1 to 10 000.
        time_limit: Seconds that an answer may take; by default until the window closes.
        frame: "pandas", "polars" or "arrow"; by default the first of them that is installed.
        client: Services to use; by default those that the commands use.

    Example:
        >>> @triptych.worker(topic=1)                    # doctest: +SKIP
        ... def mine(rows):
        ...     return rows["close"].tail(30).mean()
        >>> mine.run()                                   # doctest: +SKIP
    """
    if not isinstance(topic, numbers.Integral) or isinstance(topic, bool):
        raise TriptychError(f"{topic!r:.80} is not the number of a topic: write @triptych.worker(topic=1)")

    def decorate(function: Callable[..., Answer]) -> Worker:
        name = getattr(function, "__name__", "") if model is None else model
        return Worker(function, topic, name, rows, time_limit, frame, client)

    return decorate


class Worker:
    """A function that works on a topic. It can still be called."""

    def __init__(
        self,
        function: Callable[..., Answer],
        topic: int,
        model: str,
        rows: int,
        time_limit: float | None,
        frame: str | None,
        client: Client | None,
    ) -> None:
        if not callable(function) or inspect.isclass(function):
            raise TriptychError(f"{function!r:.80} is not a function")
        if not 1 <= rows <= 10_000:
            raise TriptychError(f"rows is {rows}, expected 1 to 10000")
        self.function, self.topic, self.model, self.n_rows = function, topic, model, rows
        self.time_limit, self.client = time_limit, client or Client()
        self.library = _frames.kind(frame or self.client.frame)
        self.__name__, self.__doc__, self.__wrapped__ = model or "worker", function.__doc__, function
        self.n_submitted = 0
        self._takes_epoch = takes_epoch(function)
        self._done: int | None = None
        self._unsent: tuple[int, Submission, float] | None = None
        self._call: _Call | None = None
        self._noted = ""
        self._is_known = False
        self._stop = threading.Event()

    def __call__(self, *args: Any) -> Answer:
        return self.function(*args)

    def run(self, limit: int | None = None) -> int:
        """Works until it is interrupted, stopped, or has submitted `limit` times.

        Returns:
            The number of submissions.

        Raises:
            TriptychError: If the topic does not exist, or the services refuse the key.
        """
        self._stop.clear()
        n_before = self.n_submitted
        pauses, service_pauses = Pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S), Pauses(FIRST_PAUSE_S, LOOK_EVERY_S)
        try:
            while not self._stop.is_set() and (limit is None or self.n_submitted - n_before < limit):
                self._stop.wait(self._step(pauses, service_pauses))
        except KeyboardInterrupt:
            pass
        return self.n_submitted - n_before

    def start(self) -> threading.Thread:
        """Works on a thread of its own until `stop` is called, and returns the thread."""
        thread = threading.Thread(target=self.run, name=f"triptych {self.__name__}", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Ends `run` after the epoch in progress."""
        self._stop.set()

    def _step(self, pauses: Pauses, service_pauses: Pauses) -> float:
        """Looks at the topic, works if a window is open, and returns the seconds until the next look."""
        try:
            listed = self.client.inference.get_json("/api/v1/topics")
        except (ServiceError, UnreachableError) as error:
            # A service that responded before is only unavailable for a while, so the worker waits for it.
            is_away = isinstance(error, UnreachableError) and self._is_known
            if not error.is_passing and not is_away:
                raise
            self._note(f"cannot read the topics: {error}")
            return service_pauses.next()
        service_pauses.reset()
        self._is_known = True
        epoch, wait = self._window(listed)
        if epoch is None:
            return wait
        self._noted = ""
        try:
            self._work(epoch)
        except Exception as error:
            if isinstance(error, ServiceError) and error.status in (401, 403):
                raise
            until_next = max(epoch.opens_next_at - time.monotonic(), LOOK_EVERY_MIN_S)
            wait = min(pauses.next(), until_next)
            _tell(f"nonce {epoch.nonce}: {_reason(error)}; next attempt in {wait:.1f} s")
            return wait
        self._done = epoch.nonce
        pauses.reset()
        return 0.0

    def _window(self, listed: dict[str, Any]) -> tuple[Epoch | None, float]:
        """Returns the epoch that is open and not worked on yet, or the seconds until the next look."""
        topics = {topic["topic_id"]: topic for topic in listed["topics"]}
        topic = topics.get(self.topic)
        if topic is None:
            known = ", ".join(map(str, topics)) or "none"
            raise TriptychError(f"topic {self.topic} does not exist: the service has {known}")
        if topic.get("is_paused"):
            self._note(f"topic {self.topic} is paused: waiting until it is resumed")
            return None, LOOK_EVERY_S
        height, block_s = listed["block_height"], listed["block_time_ms"] / 1000
        until_next = max(topic["next_epoch_height"] - height, 0) * block_s
        wait = min(max(until_next, LOOK_EVERY_MIN_S), LOOK_EVERY_S)
        nonce, close_height = topic.get("open_nonce"), topic.get("close_height")
        if nonce is None or close_height is None or nonce == self._done:
            return None, wait
        left = max(close_height - height, 0) * block_s
        if left <= SUBMIT_WITHIN_S:
            return None, wait
        now = time.monotonic()
        epoch = Epoch(
            topic_id=self.topic, nonce=nonce, name=topic["name"], column=topic["column"],
            labels=topic["labels"], actors=topic["actors"], closes_at=now + left,
            opens_next_at=now + until_next, dataset=topic.get("dataset_id") or topic["dataset"],
        )
        return epoch, wait

    def _work(self, epoch: Epoch) -> None:
        """Calls the function and submits its answer."""
        unsent, self._unsent = self._unsent, None
        if unsent and unsent[0] == epoch.nonce:
            # The same submission is sent again. The first attempt may have been stored, and calling the
            # function again might give a different value.
            _, submission, took = unsent
        else:
            answered = self._answer(epoch)
            if answered is None:
                return
            submission, took = answered
        path = f"/api/v1/topics/{self.topic}/submissions"
        body = submission.body(epoch.nonce, self.model)
        try:
            accepted = self.client.inference.send_json("POST", path, body, tries=1)
        except ServiceError as error:
            if error.status in (401, 403) or error.is_passing:
                self._unsent = (epoch.nonce, submission, took)
                raise
            _tell(f"nonce {epoch.nonce}: the answer was refused: {error.message}")
            return
        except UnreachableError:
            self._unsent = (epoch.nonce, submission, took)
            raise
        self.n_submitted += 1
        shown = " ".join(f"{label}={value:g}" for label, value in submission.values.items())
        if submission.forecast:
            shown = f"{shown} a forecast of {len(submission.forecast)}".strip()
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        print(f"{now}  nonce {epoch.nonce}: {shown} as {accepted['worker']}, after {took:.2f} s", flush=True)

    def _answer(self, epoch: Epoch) -> tuple[Submission, float] | None:
        """Returns the answer of the function and the time that it took; `None` without one."""
        if self._call and not self._call.is_done():
            self._note(f"nonce {epoch.nonce}: the function has not returned yet")
            return None
        seen = latest(epoch.dataset, self.n_rows, frame=self.library, client=self.client)
        if len(seen) == 0:
            raise TriptychError(f"dataset {epoch.dataset} has no rows yet")
        if epoch.seconds_left <= 0:
            _tell(f"nonce {epoch.nonce}: the window closed before the rows were read")
            return None
        began = time.monotonic()
        arguments = (seen, epoch) if self._takes_epoch else (seen,)
        self._call = _Call(self.function, arguments)
        within = epoch.seconds_left if self.time_limit is None else min(self.time_limit, epoch.seconds_left)
        if not self._call.wait(max(within, 0.0)):
            _tell(f"nonce {epoch.nonce}: the function did not return within {max(within, 0.0):.1f} s")
            return None
        submission = read_answer(self._call.result(), epoch.labels)
        if not submission.values and not submission.forecast:
            return None
        return submission, time.monotonic() - began

    def _note(self, text: str) -> None:
        """Says something about the topic, unless it was said last."""
        if text != self._noted:
            _tell(text)
            self._noted = text


class _Call:
    """A call on a thread, since a function cannot be ended from outside."""

    def __init__(self, function: Callable[..., Answer], arguments: tuple[Any, ...]) -> None:
        self._answer: Answer = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Answer], arguments: tuple[Any, ...]) -> None:
        try:
            self._answer = function(*arguments)
        except BaseException as error:
            self._error = error

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return self.is_done()

    def result(self) -> Answer:
        if isinstance(self._error, Exception):
            raise self._error
        if self._error is not None:
            # SystemExit is not an Exception. Raised as it is, it would end the worker.
            raise TriptychError(_reason(self._error)) from self._error
        return self._answer


def takes_epoch(function: Callable[..., Any]) -> bool:
    """Returns true if `function` needs a second argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in places and one.default is one.empty for one in parameters) > 1


def _reason(error: BaseException) -> str:
    """Returns an error as one line, with the place in the function that raised it."""
    if isinstance(error, TriptychError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _tell(text: str) -> None:
    print(f"triptych: {text}", file=sys.stderr, flush=True)
