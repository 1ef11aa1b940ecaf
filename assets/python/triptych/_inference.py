"""Topics: their past epochs, their leaderboard, and models over the past."""

from __future__ import annotations

import bisect
import datetime as dt
import inspect
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from . import _frames, _time
from ._answers import Answer, read_answer
from ._client import Client
from ._datasets import rows, time_before
from ._errors import TriptychError
from ._frames import Frame
from ._time import Time
from ._worker import Epoch, takes_epoch

HISTORY_WITHIN_S = 120.0
# Minimum loss of a topic without the setting `loss_floor`.
LOSS_FLOOR = 1e-12
# Minimum probability in a cross entropy, since the logarithm of zero is infinite.
PROBABILITY_MIN = 1e-9
# Largest value of a submission, and the error of a sum by rounding, as in the service.
VALUE_MAX = 1e40
SUM_ERROR_MAX = 1e-13

# Kinds of the columns of frames, which can be without rows or values.
ACTOR_KINDS = {
    "worker": "text", "role": "text", "name": "text", "rank": "integer", "n_epochs": "integer",
    "n_counted_epochs": "integer", "mean_loss": "float", "mean_plain_loss": "float", "median_loss": "float",
    "better_than_naive": "float", "contribution": "float", "directional_accuracy": "float",
    "correlation": "float", "missed_epochs": "integer",
}
RANK_KINDS = {
    "nonce": "integer", "opened_at": "time", "rank": "integer", "n_ranked": "integer", "mean_loss": "float",
}
BIN_KINDS = {
    "from": "float", "to": "float", "n_predictions": "integer", "mean_probability": "float",
    "observed_frequency": "float",
}


class Predictor(Protocol):
    """An object that predicts. It can also have a method `fit`."""

    @property
    def predict(self) -> Callable[..., Answer]: ...


Model = Callable[..., Answer] | Predictor
Predict = Callable[[Frame, Epoch], Answer]


def history(
    topic: int,
    epochs: int = 1000,
    *,
    first: int | None = None,
    last: int | None = None,
    actor: str | None = None,
    frame: str | None = None,
    client: Client | None = None,
) -> Frame:
    """Returns the latest past epochs of a topic, oldest first: a row for each epoch and actor.

    A topic with several labels has a row for each of them. Losses are base-10 logarithms, unless the
    topic allows negative losses. Truth, losses and scores are missing until the truth is known. An actor
    without submissions in these epochs has no rows, and neither has an unknown one.

    Args:
        topic: Number of the topic.
        epochs: Maximum number of epochs, up to 10 000.
        first: First nonce, inclusive.
        last: Last nonce, inclusive.
        actor: Address or name of the only actor to return.
        frame: "pandas", "polars" or "arrow"; by default the first of them that is installed.
        client: Services to use; by default those that the commands use.

    Returns:
        Columns `timestamp` (when the epoch opened), `nonce`, `worker`, `role`, `name`, `label`, `value`,
        `weight`, `loss`, `score`, `truth`, `combined_value`, `naive_value`, `combined_loss` and
        `naive_loss`.

    Example:
        >>> past = triptych.history(1)                                   # doctest: +SKIP
        >>> past.groupby("name")["loss"].mean().sort_values()            # doctest: +SKIP
    """
    client = client or Client()
    library = _frames.kind(frame or client.frame)
    query = {"output": "parquet", "limit": epochs, "from": first, "to": last, "actor": actor}
    path = f"/api/v1/topics/{topic}/epochs/"
    data = client.inference.call("GET", path, query, within=HISTORY_WITHIN_S)
    return _frames.from_parquet(data, library)


def leaderboard(
    topic: int,
    epochs: int = 100,
    *,
    period: str | None = None,
    frame: str | None = None,
    client: Client | None = None,
) -> Frame:
    """Returns the actors of a topic by their mean loss over its latest epochs.

    `rank` is missing for an actor with too few epochs. Other columns score an actor: `median_loss`,
    `better_than_naive` and `directional_accuracy` (shares), `correlation` with the combined value,
    `contribution` (how much worse the network is without it, in percent) and `missed_epochs` in a row.

    Args:
        topic: Number of the topic.
        epochs: Number of latest epochs.
        period: "24h", "7d", "30d" or "all", instead of `epochs`.
        frame: "pandas", "polars" or "arrow"; by default the first of them that is installed.
        client: Services to use; by default those that the commands use.

    Example:
        >>> triptych.leaderboard(1)[["rank", "name", "mean_loss"]]      # doctest: +SKIP
    """
    client = client or Client()
    library = _frames.kind(frame or client.frame)
    path = f"/api/v1/topics/{topic}/leaderboard"
    query = {"epochs": None if period else epochs, "period": period}
    return _frames.from_rows(client.inference.get_json(path, query)["actors"], library, ACTOR_KINDS)


def actor(
    topic: int,
    actor: str,
    epochs: int = 100,
    *,
    period: str | None = None,
    frame: str | None = None,
    client: Client | None = None,
) -> list[dict[str, Any]]:
    """Returns the scores of an actor of a topic, with its rank history and its calibration.

    Args:
        topic: Number of the topic.
        actor: Address or name of the actor.
        epochs: Number of latest epochs.
        period: "24h", "7d", "30d" or "all", instead of `epochs`.
        frame: "pandas", "polars" or "arrow"; by default the first of them that is installed.
        client: Services to use; by default those that the commands use.

    Returns:
        A dictionary for each role of this actor, usually one, with the columns of `leaderboard` and
        two frames. `rank_history` has the columns `nonce`, `opened_at`, `rank`, `n_ranked`
        and `mean_loss`. Each row is the leaderboard of the 100 epochs up to `nonce`. `calibration` has the
        columns `from`, `to`, `n_predictions`, `mean_probability` and `observed_frequency`. It is `None`
        on a topic with a single output. `expected_calibration_error` summarizes it.

    Raises:
        TriptychError: If the actor has no losses in these epochs, such as a new or an unknown one.

    Example:
        >>> mine, = triptych.actor(2, "mine")                            # doctest: +SKIP
        >>> mine["rank_history"].plot("opened_at", "rank")               # doctest: +SKIP
    """
    client = client or Client()
    library = _frames.kind(frame or client.frame)
    path = f"/api/v1/topics/{topic}/leaderboard"
    query = {"epochs": None if period else epochs, "period": period, "actor": actor}
    actors: list[dict[str, Any]] = client.inference.get_json(path, query)["actors"]
    if not actors:
        raise TriptychError(f"{actor} has no losses on topic {topic} in these epochs")
    for one in actors:
        one["rank_history"] = _frames.from_rows(one["rank_history"], library, RANK_KINDS)
        calibration = one.get("calibration")
        one["expected_calibration_error"] = calibration and calibration["expected_error"]
        one["calibration"] = calibration and _frames.from_rows(calibration["bins"], library, BIN_KINDS)
    return actors


def backtest(
    model: Model | Mapping[str, Model],
    topic: int | dict[str, Any],
    start: Time,
    end: Time,
    *,
    every: float = 60.0,
    n_rows: int = 120,
    train: float | None = None,
    refit: float | None = None,
    baseline: bool = True,
    frame: str | None = None,
    client: Client | None = None,
) -> Frame:
    """Runs models over the past of a topic's dataset, and returns what they predicted and lost.

    In each epoch a model sees the rows up to then and none after. Its truth is the value of the
    topic's column one horizon after the latest of these rows, or the topic's `target`.

    Args:
        model: A function as for `worker`, or several by name. An object with `fit(frame)` and
            `predict(frame)` is trained first, and again every `refit` seconds. A second parameter gets an
            `Epoch` whose `nonce` counts the epochs, without actors and without an end of its window.
        topic: Number of the topic, or settings as for `triptych inference topics create`.
        start: Time of the first epoch.
        end: Last time of the rows.
        every: Seconds between two epochs, in the dataset's time.
        n_rows: Number of rows that a model sees.
        train: Seconds of rows that `fit` sees; by default as many rows as a prediction.
        refit: Seconds between two calls of `fit`; by default it is called once.
        baseline: Adds the model `last`: the latest value, log return or volatility, or equal
            probabilities of the labels.
        frame: "pandas", "polars" or "arrow"; by default the first of them that is installed.
        client: Services to use; by default those that the commands use.

    Returns:
        Columns `timestamp` (of the latest row that the model saw), `model`, `label`, `value`, `truth`
        and `loss`, which is of the same kind as in `history`. An epoch without a prediction has no row.

    Example:
        >>> tested = triptych.backtest(mine, 1, "2026-07-01", "2026-07-02")      # doctest: +SKIP
        >>> tested.groupby("model")["loss"].mean()                               # doctest: +SKIP
    """
    client = client or Client()
    library = _frames.kind(frame or client.frame)
    models = model if isinstance(model, Mapping) else {getattr(model, "__name__", "model"): model}
    functions = {name: _function(name, one) for name, one in models.items()}
    if n_rows < 1:
        raise TriptychError(f"n_rows is {n_rows}, expected at least 1")
    settings = _Settings(_settings(client, topic), 0 if isinstance(topic, dict) else topic)
    start, end = _time.parse(start), _time.parse(end)
    if start > end:
        raise TriptychError(f"start {_time.text(start)} is after end {_time.text(end)}")
    # A shorter time is 0 in microseconds.
    if not every >= 1e-6:
        raise TriptychError(f"every is {every}: epochs have to be some seconds apart")
    # Counts rows instead of subtracting a duration, since a dataset with gaps has fewer rows in a time
    # range.
    earlier = time_before(client, settings.dataset, start, n_rows)
    earlier = min(earlier, start - dt.timedelta(seconds=train or 0))
    past = rows(settings.dataset, earlier, end, frame=library, client=client)
    walk = _Walk(settings, past, library, n_rows)
    found: list[dict[str, Any]] = []
    fitted_at: dt.datetime | None = None
    for at in walk.epochs(start, every):
        is_due = fitted_at is None or (refit is not None and (at - fitted_at).total_seconds() >= refit)
        if is_due:
            fitted_at = at
            for one in models.values():
                if hasattr(one, "fit"):
                    one.fit(walk.training(at, train))
        found += walk.predictions(at, functions, baseline)
    for name, (n_refused, reason) in walk.refused.items():
        print(f"triptych: refused answers of `{name}`: {n_refused}, the first: {reason}", file=sys.stderr)
    if not found and settings.truths:
        n_epochs = len(settings.truths)
        raise TriptychError(f"no model returned a value in any of the {n_epochs} epochs with a truth")
    if not found:
        raise TriptychError(
            f"nothing was predicted: dataset {settings.dataset} has too few rows of `{settings.column}` "
            f"from {_time.text(start)} to {_time.text(end)}, or no truth {settings.horizon} later"
        )
    return _frames.from_rows(found, library)


def _function(name: str, model: Any) -> Predict:
    """Returns the function of a model that predicts."""
    if inspect.isclass(model):
        raise TriptychError(f"model `{name}` is a class: pass an instance, such as {model.__name__}()")
    call = getattr(model, "predict", model)
    if not callable(call):
        wanted = "a function or an object with `predict`"
        raise TriptychError(f"model `{name}` is {model!r:.80}, expected {wanted}")
    return call if takes_epoch(call) else lambda rows, _: call(rows)


def _settings(client: Client, topic: int | dict[str, Any]) -> dict[str, Any]:
    return topic if isinstance(topic, dict) else client.inference.get_json(f"/api/v1/topics/{topic}")


class _Settings:
    """The settings of a topic that its truth and its losses follow from."""

    def __init__(self, settings: dict[str, Any], topic_id: int) -> None:
        self.topic_id, self.name = topic_id, settings.get("metadata") or ""
        try:
            self.dataset = settings.get("dataset_id") or settings["dataset"]
            self.column = settings["column"]
            self.horizon = dt.timedelta(seconds=settings["horizon_seconds"])
            threshold = settings.get("direction_threshold")
            self.threshold = None if threshold is None else float(threshold)
            given = settings.get("loss_parameters") or {}
            self.parameters = {name: float(value) for name, value in given.items()}
            self.floor = float(settings.get("loss_floor") or LOSS_FLOOR)
            method = (settings.get("loss_method") or "mse").lower()
            self.method = {"sqe": "mse", "abse": "mae"}.get(method, method)
            has_unity = bool(settings.get("require_unity"))
            bounds = (0.0, 1.0) if has_unity or self.method in ("ce", "bce") else (-math.inf, math.inf)
            self.least, self.most = (
                default if settings.get(name) is None else float(settings[name])
                for name, default in zip(("value_min", "value_max"), bounds)
            )
            tolerance = settings.get("unity_tolerance")
            self.tolerance = float(1e-6 if tolerance is None else tolerance) if has_unity else math.inf
            self.default = float(settings.get("label_default_value") or 0)
            self.n_labels_max = float(settings.get("max_labels_per_submission") or math.inf)
        except KeyError as error:
            raise TriptychError(f"the settings of the topic have no {error.args[0]}") from error
        except (OverflowError, TypeError, ValueError) as error:
            raise TriptychError(f"the settings of the topic have an invalid number: {error}") from error
        self.target = settings.get("target") or "value"
        self.is_case_sensitive = bool(settings.get("label_case_sensitive"))
        self.labels = [self.label(label) for label in settings.get("label_whitelist") or ["y"]]
        if self.threshold is not None and not settings.get("label_whitelist"):
            self.labels = ["up", "down", "flat"]
        # Truths whose deviation scales the loss, unless it is a parameter.
        self.truths: list[float] = []
        self.is_plain = bool(settings.get("allow_negative"))
        if self.method not in LOSSES:
            raise TriptychError(f"loss method {self.method} is not known: use {', '.join(LOSSES)}")

    def label(self, text: str) -> str:
        """Returns a label as the service stores it."""
        return text.strip() if self.is_case_sensitive else text.strip().lower()

    def values(self, answer: dict[str, float]) -> list[float]:
        """Returns the values of a submission in the order of the labels.

        Raises:
            TriptychError: If the service would refuse the submission.
        """
        if len(answer) > self.n_labels_max:
            raise TriptychError(f"{len(answer)} values exceed the maximum of {self.n_labels_max:g}")
        values: dict[str, float] = {}
        for text, value in answer.items():
            label = self.label(text)
            if label not in self.labels:
                raise TriptychError(f"unknown label `{text:.64}`, expected {', '.join(self.labels)}")
            if label in values:
                raise TriptychError(f"duplicate label `{label}`")
            if abs(value) > VALUE_MAX:
                raise TriptychError(f"`{value}` exceeds the maximum of {VALUE_MAX:g}, with either sign")
            if not self.least <= value <= self.most:
                allowed = f"the range {self.least:g} to {self.most:g}"
                raise TriptychError(f"value {value:g} of label `{label}` is outside {allowed}")
            values[label] = value
        if self.labels != ["y"] and all(value == self.default for value in values.values()):
            raise TriptychError("all values are the default")
        total = sum(values.values())
        if abs(total - 1) > self.tolerance + SUM_ERROR_MAX:
            raise TriptychError(f"require_unity violated: sum={total:g} tol={self.tolerance:g}")
        return [values.get(label, self.default) for label in self.labels]

    def truth(self, before: float, path: list[float], after: float) -> list[float] | None:
        """Returns what came true: the target, or 1 for one of the labels. `None` if it is undefined.

        Args:
            before: Latest value at the opening of the epoch.
            path: Values after it until the horizon.
            after: Value at the horizon.
        """
        if self.target != "value":
            values = [before, *path] if self.target == "volatility" else [before, after]
            if min(values) <= 0 or (self.target == "volatility" and len(path) < 2):
                return None
            steps = [math.log(end / begin) for begin, end in itertools.pairwise(values)]
            return [statistics.stdev(steps) * math.sqrt(len(steps)) if len(steps) > 1 else steps[0]]
        if self.threshold is None:
            return [after]
        move = 0.0 if before == 0 else (after - before) / abs(before)
        label = "up" if move > self.threshold else "down" if move < -self.threshold else "flat"
        return [float(one == label) for one in self.labels]

    def loss(self, values: list[float], truth: list[float]) -> float:
        """Returns the loss of `values`, as the network learns from it."""
        known = {"std": _deviation(self.truths), **self.parameters}
        loss = sum(LOSSES[self.method](value, true, known) for value, true in zip(values, truth))
        return loss if self.is_plain else math.log10(max(loss, self.floor))


def _deviation(truths: list[float]) -> float:
    """Returns the standard deviation of the latest 100 truths, 1 if it is unknown."""
    latest = truths[-100:]
    deviation = statistics.pstdev(latest) if len(latest) >= 10 else 0.0
    return deviation if deviation >= 1e-12 else 1.0


def _huber(value: float, truth: float, known: dict[str, float]) -> float:
    error, delta = abs(value - truth), known.get("delta", 1.0)
    return error * error / 2 if error <= delta else delta * (error - delta / 2)


def _log_cosh(value: float, truth: float, _: dict[str, float]) -> float:
    error = abs(value - truth)
    return error + math.log1p(math.exp(-2 * error)) - math.log(2)


def _binary_cross_entropy(value: float, truth: float, known: dict[str, float]) -> float:
    epsilon = known.get("epsilon", 1e-15)
    value = min(max(value, epsilon), 1 - epsilon)
    loss = -(truth * math.log(value) + (1 - truth) * math.log(1 - value))
    return loss if loss > epsilon else 0.0


def _poisson(value: float, truth: float, known: dict[str, float]) -> float:
    value = max(value, known.get("epsilon", 1e-7))
    return value - truth * math.log(value)


def _z_scores(value: float, truth: float, known: dict[str, float]) -> tuple[float, float]:
    mean = known.get("mean", 0.0)
    return (value - mean) / known["std"], (truth - mean) / known["std"]


def _ztae(value: float, truth: float, known: dict[str, float]) -> float:
    value, truth = _z_scores(value, truth, known)
    return abs(math.tanh(value) - math.tanh(truth))


def _zptae(value: float, truth: float, known: dict[str, float]) -> float:
    value, truth = _z_scores(value, truth, known)
    alpha, beta = known.get("alpha", 0.25), known.get("beta", 2.0)

    def power_tanh(x: float) -> float:
        try:
            return x / (1 + abs(x) ** beta) ** ((1 - alpha) / beta)
        except OverflowError:
            return math.copysign(abs(x) ** alpha, x)

    penalty = (known.get("mse_norm", 0.01) * abs(value - truth)) ** known.get("gamma", 4.0)
    return abs(power_tanh(value) - power_tanh(truth)) + penalty


def _czar(value: float, truth: float, known: dict[str, float]) -> float:
    value, truth = _z_scores(value, truth, known)
    delta, epsilon = known.get("alpha", 0.01) / math.sqrt(3), known.get("epsilon", 1.0)
    base = _czar_base(value, truth, delta)
    if epsilon < 1e-9:
        return base
    scale = 1 + delta * delta
    bend, softening = delta / scale, scale * (math.atan(epsilon + delta) - math.atan(delta))
    end = (math.sqrt(1 + 4 * bend * softening) - 1) / (2 * bend) if bend else softening
    full = end + bend * end * end
    least = 1 - scale * (math.atan(abs(truth) + delta) - math.atan(delta)) / full
    width = known.get("tau", 0.05) * abs(1 - scale * (math.pi / 2 - math.atan(delta)) / full)
    share = max(least, 0.0) if width < 1e-9 else _softplus(least / width) / _softplus(1 / width)
    return base + share * _czar_base(end, 0.0, delta)


def _czar_base(value: float, truth: float, delta: float) -> float:
    scale = 1 + delta * delta
    value, truth = (-value if truth < 0 else value), abs(truth)

    def curve(x: float) -> float:
        return scale * 2 * x / (1 + x * x) ** 2

    if value <= 0:
        rest = scale * (math.atan(truth + delta) - math.atan(delta))
        return curve(delta) * value * value / 2 - value + rest
    if value <= truth:
        return scale * (math.atan(truth + delta) - math.atan(value + delta))
    beyond, slope = value - truth, scale / (1 + (truth + delta) ** 2)
    return min(curve(truth + delta), curve(delta)) * beyond * beyond / 2 + slope * beyond


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


# Losses of a value and the truth, with the parameters of the topic.
LOSSES: dict[str, Callable[[float, float, dict[str, float]], float]] = {
    "mse": lambda value, truth, _: (value - truth) ** 2,
    "mae": lambda value, truth, _: abs(value - truth),
    "huber": _huber,
    "logcosh": _log_cosh,
    "ce": lambda value, truth, _: -truth * math.log(max(value, PROBABILITY_MIN)),
    "bce": _binary_cross_entropy,
    "poisson": _poisson,
    "ztae": _ztae,
    "zptae": _zptae,
    "czar": _czar,
}


class _Walk:
    """Rows of the past, of which each epoch sees a part."""

    def __init__(self, settings: _Settings, past: Frame, library: str, n_rows: int) -> None:
        self.settings, self.past, self.library, self.n_rows = settings, past, library, n_rows
        # Number of refused answers of each model, and the first reason.
        self.refused: dict[str, tuple[int, str]] = {}
        self.times = [_time.parse(at) for at in _frames.values(past, "timestamp")]
        known = _frames.values(past, settings.column)
        # Indices, times and values of the rows that have a value in the column.
        self.places = [at for at, value in enumerate(known) if value is not None]
        self.known_times = [self.times[at] for at in self.places]
        try:
            self.known = [float(known[at]) for at in self.places]
        except ValueError as error:
            raise TriptychError(f"column `{settings.column}` has no numbers: {error}") from error

    def epochs(self, start: dt.datetime, every: float) -> Iterator[dt.datetime]:
        if not self.known_times:
            return
        at = max(start, self.known_times[0])
        while at <= self.known_times[-1]:
            yield at
            at += dt.timedelta(seconds=every)

    def training(self, at: dt.datetime, seconds: float | None) -> Frame:
        end = bisect.bisect_right(self.times, at)
        if seconds is None:
            begin = max(0, end - self.n_rows)
        else:
            begin = bisect.bisect_left(self.times, at - dt.timedelta(seconds=seconds))
        return _frames.part(self.past, begin, end, self.library)

    def predictions(
        self, at: dt.datetime, functions: dict[str, Predict], baseline: bool
    ) -> Iterator[dict[str, Any]]:
        """Yields the rows of an epoch whose truth is known."""
        n_seen = bisect.bisect_right(self.known_times, at)
        if n_seen == 0:
            return
        before_at = self.known_times[n_seen - 1]
        truth = self.truth(n_seen - 1, len(self.known))
        if truth is None:
            return
        self.settings.truths.append(truth[0])
        end = self.places[n_seen - 1] + 1
        for name, function in functions.items():
            # Each model gets its own frame, since it can change the frame.
            seen = _frames.part(self.past, max(0, end - self.n_rows), end, self.library)
            answer = read_answer(function(seen, self.epoch()), self.settings.labels)
            if not answer.values:
                continue
            try:
                values = self.settings.values(answer.values)
            except TriptychError as error:
                n_refused, reason = self.refused.get(name, (0, str(error)))
                self.refused[name] = (n_refused + 1, reason)
                continue
            yield from self._rows(before_at, name, values, truth)
        if baseline and "last" not in functions:
            last = self.latest(n_seen)
            if last is not None:
                yield from self._rows(before_at, "last", last, truth)

    def epoch(self) -> Epoch:
        settings = self.settings
        return Epoch(
            topic_id=settings.topic_id, nonce=len(settings.truths), name=settings.name,
            column=settings.column, labels=[*settings.labels], actors=[], closes_at=math.inf,
            opens_next_at=math.inf, dataset=settings.dataset,
        )

    def truth(self, opened: int, n_known: int) -> list[float] | None:
        """Returns what came true after row `opened`, if the first `n_known` rows tell."""
        due = self.known_times[opened] + self.settings.horizon
        place = bisect.bisect_left(self.known_times, due, 0, n_known)
        # As in a running network, a row a horizon late is no truth of this epoch.
        if place == n_known or self.known_times[place] > due + self.settings.horizon:
            return None
        end = bisect.bisect_right(self.known_times, due, 0, n_known)
        path = self.known[opened + 1 : end]
        return self.settings.truth(self.known[opened], path, self.known[place])

    def latest(self, n_seen: int) -> list[float] | None:
        """Returns the prediction of the model `last` from the first `n_seen` rows."""
        if self.settings.threshold is not None:
            return [1 / len(self.settings.labels)] * len(self.settings.labels)
        if self.settings.target == "value":
            return [self.known[n_seen - 1]]
        for opened in range(n_seen - 1, max(-1, n_seen - 1 - self.n_rows), -1):
            truth = self.truth(opened, n_seen)
            if truth is not None:
                return truth
        return None

    def _rows(
        self, at: dt.datetime, model: str, values: list[float], truth: list[float]
    ) -> Iterator[dict[str, Any]]:
        loss = self.settings.loss(values, truth)
        for label, value, true in zip(self.settings.labels, values, truth):
            yield {
                "timestamp": at, "model": model, "label": label, "value": value, "truth": true, "loss": loss,
            }
