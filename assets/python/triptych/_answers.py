"""Answers of models: a number, numbers by label, a forecast, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._errors import TriptychError

Answer = Any
MEMBERS = {"value", "values", "forecast"}


@dataclass(frozen=True)
class Submission:
    """Numbers to submit for an epoch."""

    values: dict[str, float] = field(default_factory=dict)
    """Inferred values by label."""
    forecast: dict[str, float] = field(default_factory=dict)
    """Expected losses by the address of an inferer."""

    def body(self, nonce: int, model: str | None) -> dict[str, Any]:
        """Returns the body of a request."""
        body: dict[str, Any] = {"nonce": nonce}
        if model:
            body["model"] = model
        if list(self.values) == ["y"]:
            body["value"] = repr(self.values["y"])
        elif self.values:
            body["values"] = {label: repr(value) for label, value in self.values.items()}
        if self.forecast:
            body["forecast"] = {worker: repr(loss) for worker, loss in self.forecast.items()}
        return body


def read_answer(answer: Answer, labels: list[str]) -> Submission:
    """Returns the numbers in what a model returned; without any, nothing is submitted.

    >>> read_answer(42, ["y"]).values
    {'y': 42.0}
    >>> read_answer({"up": 0.5, "down": 0.5}, ["up", "down"]).values
    {'up': 0.5, 'down': 0.5}
    >>> read_answer(None, ["y"]).values
    {}
    """
    if answer is None:
        return Submission()
    returned = answer
    if not isinstance(answer, Mapping) and hasattr(answer, "to_dict"):
        answer = answer.to_dict()  # A pandas.Series of labels
    if not isinstance(answer, Mapping):
        if labels != ["y"]:
            raise TriptychError(f"the model returned {answer!r:.120}, expected {_example(labels)}")
        return Submission(values={"y": _number(answer, labels)})
    members = answer if answer and set(answer) <= MEMBERS else {"values": answer}
    unexpected = "value" in members and ("values" in members or labels != ["y"])
    values = {"y": members["value"]} if members.get("value") is not None else members.get("values") or {}
    forecast = members.get("forecast") or {}
    unexpected |= not isinstance(values, Mapping) or not isinstance(forecast, Mapping)
    if unexpected or (labels == ["y"] and not set(values) <= {"y"}):
        raise TriptychError(f"the model returned {returned!r:.120}, expected {_example(labels)}")
    return Submission(
        values={str(label): _number(value, labels) for label, value in values.items()},
        forecast={str(worker): _number(loss, labels) for worker, loss in forecast.items()},
    )


def _number(value: Any, labels: list[str]) -> float:
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise TriptychError(f"the model returned {value!r:.120}, expected {_example(labels)}")
    return number


def _example(labels: list[str]) -> str:
    if labels == ["y"]:
        return "a finite number, or None for no submission"
    shown = ", ".join(f'"{label}": {value}' for label, value in zip(labels or ["some"], (0.5, 0.3, 0.2)))
    return f"{{{shown}}}, or None for no submission"
