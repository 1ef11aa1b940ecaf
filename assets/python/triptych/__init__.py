"""Datasets, live rows, workers and functions of Triptych.

    >>> import triptych                                                      # doctest: +SKIP
    >>> bars = triptych.rows("synthetic_btcusd", "2026-07-01", resolution="1h")      # doctest: +SKIP

Every function finds the services and the API key as the commands of `triptych` do: environment
variables, a profile of the configuration file, or the local stack that runs. `Client` names others.
"""

from ._client import Client, NoStackError
from ._datasets import coverage, follow, insert, latest, rows
from ._errors import ServiceError, TriptychError, UnreachableError
from ._functions import ResultGroup, run
from ._inference import actor, backtest, history, leaderboard
from ._worker import Epoch, Worker, worker

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Epoch",
    "NoStackError",
    "ResultGroup",
    "ServiceError",
    "TriptychError",
    "UnreachableError",
    "Worker",
    "actor",
    "backtest",
    "coverage",
    "follow",
    "history",
    "insert",
    "leaderboard",
    "latest",
    "rows",
    "run",
    "worker",
]
