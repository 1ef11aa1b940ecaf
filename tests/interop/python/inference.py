"""Tests topics (workers, past epochs, backtests) and functions."""

import contextlib
import io
import json
import math
import pathlib
import sys
import time

import numpy
import pandas

import triptych
from errors import expect
from reads import settled
from stack import MARKET
from triptych._time import text

WITHIN_S = 240
FUNCTIONS = pathlib.Path(__file__).resolve().parents[3] / "assets/functions"


def last_close(rows):
    return rows["close"].iloc[-1]


# This worker runs while the other tests do.
STEADY = triptych.worker(topic=1, model="steady")(last_close)


def worker_submits(_):
    calls = []

    @triptych.worker(topic=1)
    def mine(rows):
        """A mean."""
        calls.append(len(rows))
        if len(calls) == 1:
            raise ValueError("the first call fails")
        if len(calls) == 2:
            sys.exit("the second call exits")
        return rows["close"].tail(30).mean()

    assert mine.run(limit=2) == 2 and mine.__doc__ == "A mean."
    assert len(calls) >= 4, "it was called again after a failure and after an exit"

    @triptych.worker(topic=2, model="python", rows=10, frame="polars")
    def labels(rows, epoch):
        assert (rows.height, epoch.column, epoch.labels) == (10, "close", ["up", "down", "flat"])
        assert epoch.seconds_left > 0
        return {"up": 0.5, "down": 0.25, "flat": 0.25}

    assert labels.run(limit=1) == 1
    STEADY.start()


def worker_continues_after_a_restart(_):
    deadline, n_submitted = time.monotonic() + WITHIN_S, STEADY.n_submitted
    while STEADY.n_submitted == n_submitted:
        assert time.monotonic() < deadline, "the worker submitted nothing"
        time.sleep(0.1)
    STEADY.stop()


def frames_have_their_columns_without_rows_and_values(_):
    for frame in ("pandas", "polars", "arrow"):
        empty = triptych._frames.from_rows([], frame, triptych._inference.ACTOR_KINDS)
        assert len(empty) == 0 and len(empty[["rank", "name", "mean_loss"]] if frame == "pandas" else empty["rank"]) == 0
    ranks = [{"nonce": 1, "opened_at": "2026-01-01T00:00:00Z", "rank": None, "n_ranked": 0, "mean_loss": None}]
    got = triptych._frames.from_rows(ranks, "pandas", triptych._inference.RANK_KINDS)
    assert got.dtypes.astype(str).tolist() == ["int64", "datetime64[us, UTC]", "Int64", "int64", "float64"]
    got = triptych._frames.from_rows(ranks, "polars", triptych._inference.RANK_KINDS)
    assert str(got.schema["rank"]) == "Int64" and str(got.schema["opened_at"]).startswith("Datetime")


def worker_is_ranked(_):
    deadline = time.monotonic() + WITHIN_S
    while "mine" not in list(triptych.leaderboard(1)["name"]):
        assert time.monotonic() < deadline, triptych.leaderboard(1).to_string()
        time.sleep(1)
    (mine,) = triptych.actor(1, "mine")
    assert mine["name"] == "mine" and mine["calibration"] is None
    assert list(mine["rank_history"].columns) == ["nonce", "opened_at", "rank", "n_ranked", "mean_loss"]
    past = triptych.history(1, actor="mine")
    assert past["loss"].notna().any() and set(past["role"]) == {"inferer"}
    directions = triptych.history(2, actor="python", frame="polars")
    assert directions.height % 3 == 0 and set(directions["label"]) == {"up", "down", "flat"}


def history_agrees_with_other_queries(stack):
    deadline = time.monotonic() + WITHIN_S
    while len(past := triptych.history(1, epochs=5)) == 0:
        assert time.monotonic() < deadline, "no epoch closed"
        time.sleep(1)
    epochs = stack.json("/api/v1/topics/1/history", limit=5)["epochs"]
    assert list(past["nonce"].drop_duplicates())[-1] >= epochs[-1]["nonce"]
    for nonce, actors in past.groupby("nonce"):
        one = stack.json(f"/api/v1/topics/1/epochs/{nonce}")
        values = one["network_inferences"]["inferer_values"] + one["network_inferences"]["forecaster_values"]
        want = {value["worker"]: float(value["values"][0]["value"]) for value in values}
        assert dict(zip(actors["worker"], actors["value"])) == want
        weights = {**one["weights"]["inferers"], **one["weights"]["forecasters"]}
        for worker, weight in zip(actors["worker"], actors["weight"]):
            assert math.isclose(weight, float(weights.get(worker, "nan"))) or worker not in weights
    first = int(past["nonce"].iloc[0])
    assert set(triptych.history(1, first=first, last=first)["nonce"]) == {first}
    assert len(triptych.history(1, actor="nobody")) == 0
    expect(lambda: triptych.actor(1, "nobody"), "nobody has no losses on topic 1 in these epochs")
    assert triptych.history(1, 3, frame="arrow").column_names == list(past.columns)


def backtest_agrees_with_the_command(stack):
    end = triptych.rows(MARKET, resolution="1h")["timestamp"].iloc[-1]
    start = end - pandas.Timedelta("6h")
    value = {"metadata": "ten minutes ahead", "dataset": MARKET, "column": "close", "horizon_seconds": 600}
    direction = value | {
        "topic_type": "classification", "output_arity": "multi", "loss_method": "ce", "allow_negative": True,
        "label_whitelist": ["up", "down", "flat"], "direction_threshold": "0.0005", "require_unity": True,
    }
    one, labels = "{'value': 1}", "{'values': {'up': 0.5, 'down': 0.25, 'flat': 0.25}}"
    methods = ("mae", "huber", "logcosh", "sqe", "ztae", "zptae", "czar")
    cases = [(one, value | {"loss_method": method}) for method in methods]
    cases.append((one, value | {"loss_method": "huber", "loss_parameters": {"delta": "100000"}}))
    count = {"loss_method": "poisson", "allow_negative": True, "value_min": 0}
    cases.append((one, value | count))
    for target in ("log_return", "volatility"):
        cases.append((one, value | {"loss_method": "mae", "target": target}))
    near = {"std": "1000", "mean": "50000", "alpha": "0.5", "tau": "0.2", "epsilon": "0.5"}
    cases.append((one, value | {"loss_method": "czar", "loss_parameters": near}))
    for answer, settings in [*cases, (labels, direction)]:
        file = stack.path / "topic.json"
        file.write_text(json.dumps(settings))
        command = f"it={sys.executable} -c \"import json; print(json.dumps({answer}))\""
        arguments = ["--from", text(start), "--to", text(end), "--every", "3600", "--no-baselines", "--model", command]
        told = stack.command("inference", "backtest", str(file), *arguments, "--json")
        (want,) = [actor for actor in json.loads(told)["actors"] if actor["role"] == "inferer"]
        submission = eval(answer)
        got = triptych.backtest({"it": lambda rows, it=submission: it}, settings, start, end, every=3600)
        losses = got[got["model"] == "it"].drop_duplicates("timestamp")["loss"]
        assert len(losses) == want["n_epochs"], (losses, want)
        assert math.isclose(losses.mean(), want["mean_loss"]), (losses.mean(), want)
    assert triptych.backtest(lambda rows: None, 1, settled() - pandas.Timedelta("1min"), settled(), every=10) is not None

    class Drift:
        fitted = []

        def fit(self, rows):
            self.fitted.append(len(rows))
            self.step = rows["close"].diff().mean()

        def predict(self, rows):
            return rows["close"].iloc[-1] + self.step

    models = {"drift": Drift(), "mean": lambda rows: rows["close"].mean()}
    tested = triptych.backtest(models, value, start, end, every=1800, train=7200, refit=7200)
    assert set(tested["model"]) == {"drift", "mean", "last"} and len(Drift.fitted) == 4
    assert tested["timestamp"].is_monotonic_increasing
    epochs = []

    @triptych.worker(topic=1)
    def second(rows, epoch):
        epochs.append(epoch)
        return epoch.nonce if epoch.seconds_left > 0 else None

    tested = triptych.backtest(second, value, start, end, every=1800, baseline=False)
    assert tested["value"].tolist() == [*range(1, len(tested) + 1)] and set(tested["model"]) == {"second"}
    assert (epochs[0].name, epochs[0].labels, epochs[0].actors) == ("ten minutes ahead", ["y"], [])
    expect(lambda: triptych.backtest(len, 1, "2001-01-01", "2001-01-02"), "nothing was predicted", "from 2001")
    for unfit in ("x", {"up": 1}, {"value": 1, "up": 1}, pandas.Series([1.5], [119])):
        expect(lambda: triptych.backtest(lambda rows: unfit, value, start, end),
               f"the model returned {unfit!r:.120}", "expected a finite number")


def answers_of_a_backtest_are_checked_as_by_the_service(_):
    end = settled()
    start = end - pandas.Timedelta("1min")
    value = {"dataset": MARKET, "column": "close", "horizon_seconds": 10, "value_min": "0"}
    direction = value | {
        "output_arity": "multi", "loss_method": "ce", "allow_negative": True, "direction_threshold": "0.0005",
        "label_whitelist": ["Up", "down", "flat"], "require_unity": True,
    }
    answers = {"lower": {"up": 0.5, "down": 0.3, "flat": 0.2}, "mixed": {"Up": 0.5, " DOWN": 0.3, "flat": 0.2}}
    tested = triptych.backtest({name: lambda _, it=it: it for name, it in answers.items()}, direction, start, end, every=20)
    lower, mixed = (tested[tested["model"] == name][["label", "value", "loss"]].values.tolist() for name in answers)
    assert lower == mixed and {label for label, *_ in lower} == {"up", "down", "flat"}
    for settings, unfit, reason in (
        (value, -5, "value -5 of label `y` is outside the range 0 to inf"),
        (direction, {"upp": 0.5, "down": 0.5}, "unknown label `upp`, expected up, down, flat"),
        (direction, {"up": 0.5, "UP": 0.5}, "duplicate label `up`"),
        (direction, {"up": 0.5}, "require_unity violated: sum=0.5"),
        (direction, {"up": 0}, "all values are the default"),
        (direction | {"max_labels_per_submission": 1}, answers["lower"], "3 values exceed the maximum of 1"),
    ):
        noted = io.StringIO()
        with contextlib.redirect_stderr(noted):
            expect(lambda: triptych.backtest(lambda _: unfit, settings, start, end, every=20, baseline=False),
                   "no model returned a value")
        assert reason in noted.getvalue(), noted.getvalue()


def models_of_a_backtest_do_not_affect_each_other(_):
    end = settled()
    settings = {"dataset": MARKET, "column": "close", "horizon_seconds": 10}

    def change(rows):
        value = last_close(rows)
        rows["close"] = 1e9
        return value

    def change_polars(rows):
        value = rows["close"][-1]
        rows[-1, "close"] = 1e9
        return value

    for frame, model in {"pandas": change, "polars": change_polars}.items():
        models = {"first": model, "second": model}
        tested = triptych.backtest(models, settings, end - pandas.Timedelta("2min"), end, every=5, frame=frame)
        by_model = [tested["value"].to_numpy()[tested["model"].to_numpy() == name].tolist()
                    for name in ("first", "second", "last")]
        assert by_model[0] and by_model[0] == by_model[1] == by_model[2], by_model


def rows_of_a_backtest_share_no_memory_with_later_rows(_):
    end = settled()
    settings = {"dataset": MARKET, "column": "close", "horizon_seconds": 10}
    start = end - pandas.Timedelta("1min")
    for frame in ("pandas", "polars", "arrow"):
        seen = []
        model = lambda rows: seen.append(rows) or 1
        triptych.backtest(model, settings, start, end, every=5, frame=frame)
        columns = [rows["close"].chunk(0) if frame == "arrow" else rows["close"] for rows in seen]
        earlier, later = (column.to_numpy() for column in columns[:2])
        assert set(earlier) & set(later) and not numpy.shares_memory(earlier, later), frame


def functions_run_on_workers(_):
    (group,) = triptych.run("hello", nodes=3)
    assert (group.frequency, len(group.peers), group.exit_code) == (100, 3, 0) and "Hello" in group.stdout
    assert len(triptych.run("whoami", nodes="all")) == 3
    assert triptych.run(f"{FUNCTIONS}/hello.wasm")[0].stdout == group.stdout
    expect(lambda: triptych.run("hello", nodes=0), "nodes is 0, expected 1 or more")
    expect(lambda: triptych.run("hello", subgroup="nowhere", timeout=1), "cannot run hello")


def invalid_backtests_are_explained(_):
    end = triptych.latest(MARKET, 1)["timestamp"].iloc[0]
    start = end - pandas.Timedelta("1min")
    settings = {"metadata": "x", "dataset": MARKET, "column": "close", "horizon_seconds": 10}
    for name, value in {
        "horizon_seconds": "10", "direction_threshold": "x", "loss_parameters": {"delta": "x"}, "loss_floor": "x",
    }.items():
        expect(lambda: triptych.backtest(last_close, settings | {name: value}, start, end), "an invalid number")
    expect(lambda: triptych.backtest(last_close, settings, start, end, every=1e-9), "every is 1e-09")
    expect(lambda: triptych.backtest(last_close, settings, start, end, n_rows=0), "n_rows is 0, expected at least 1")
    expect(lambda: triptych.backtest(last_close, settings, end, start), "is after end")
    nothing = lambda: triptych.backtest(lambda _: None, settings, start, end, baseline=False)
    expect(nothing, "no model returned a value in any of the")

    class Model:
        def predict(self, rows):
            return 1

    expect(lambda: triptych.backtest(Model, settings, start, end), "`Model` is a class", "pass an instance", "Model()")
    expect(lambda: triptych.backtest({"one": 1}, settings, start, end), "`one` is 1, expected a function")
    expect(lambda: triptych.backtest(lambda _: 10**400, settings, start, end), "expected a finite number")
    texts = [{"timestamp": start + pandas.Timedelta(seconds=10 * number), "close": "x"} for number in range(5)]
    triptych.insert("labels", texts, create=True)
    expect(lambda: triptych.backtest(last_close, settings | {"dataset": "labels"}, start, end), "has no numbers")
