"""Rows of datasets: read, followed and inserted."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import numbers
import time as clock
import uuid
from collections.abc import Iterator
from typing import Any

from . import _frames, _time
from ._client import Client
from ._errors import ServiceError, TriptychError, UnreachableError
from ._frames import Frame
from ._http import Pauses, events
from ._time import Time

Name = str | int
Row = dict[str, Any]

# The service may have to read the rows of a download from an archive first.
DOWNLOAD_WITHIN_S = 300.0
INSERT_WITHIN_S = 120.0
# Maximum time without an event of a stream. Heartbeats are sent every 30 seconds.
SILENCE_MAX_S = 45.0
ROWS_MAX = 10_000
REPLAY_ROWS = 100
REMEMBERED_ROWS = 4 * REPLAY_ROWS
BATCH_ROWS = 20_000
BATCH_VALUES = 500_000
MICROSECOND = dt.timedelta(microseconds=1)
EARLIEST = dt.datetime.min.replace(tzinfo=dt.timezone.utc)


def rows(
    name: Name,
    start: Time | None = None,
    end: Time | None = None,
    *,
    resolution: str = "raw",
    columns: list[str] | None = None,
    fill: str = "none",
    complete: bool = False,
    time_zone: str | None = None,
    frame: str | None = None,
    client: Client | None = None,
) -> Frame:
    """Returns rows or buckets of a dataset as a DataFrame, oldest first.

    In pandas, a column of integers or booleans with a missing value has the dtype `Int64` or `boolean`.

    Args:
        name: Name or number of the dataset.
        start: First time, inclusive; by default the first row. Times without a zone are in UTC.
        end: Last time, inclusive for rows and exclusive for buckets; by default the latest row.
        resolution: "raw" for rows as they were inserted, or the length of buckets with open, high,
            low, close, volume and count: "5m", "1h", "1d", or any other such as "45s" or "7m".
        columns: Columns to return, in addition to `timestamp`; by default all.
        fill: Buckets to insert into gaps between the first and the last bucket, with a volume and a
            count of 0: "null" without prices, "previous" with the previous close, "linear" between
            the closes around the gap.
        complete: Adds the column `complete`, which is true for buckets that have ended.
        time_zone: Zone such as "Europe/Berlin" in which buckets of whole days begin; by default UTC.
        frame: "pandas", "polars" or "arrow"; by default the first of them that is installed.
        client: Services to use; by default those that the commands use.

    Example:
        >>> import triptych                                                      # doctest: +SKIP
        >>> triptych.rows("synthetic_btcusd", "2026-07-01", resolution="1h")     # doctest: +SKIP
    """
    client = client or Client()
    library = _frames.kind(frame or client.frame)
    query = {**_dataset(name), **_columns_of(columns), "resolution": resolution, "output": "parquet"}
    path = "/rows/bulk_download/"
    query.update(_bounds(start, end))
    query.update({"fill": None if fill == "none" else fill, "complete": "true" if complete else None})
    query["time_zone"] = time_zone
    data = client.datasets.call("GET", path, query, within=DOWNLOAD_WITHIN_S)
    wanted = None if columns is None else ["timestamp", *(c for c in columns if c != "timestamp")]
    if wanted is not None and complete and "complete" not in wanted:
        wanted.append("complete")
    return _frames.from_parquet(data, library, wanted)


def latest(
    name: Name, n: int = 120, *, frame: str | None = None, client: Client | None = None
) -> Frame:
    """Returns the latest `n` rows of a dataset as a DataFrame, oldest first; at most 10 000."""
    client = client or Client()
    library = _frames.kind(frame or client.frame)
    query = {**_dataset(name), "limit": n, "output": "parquet"}
    data = client.datasets.call("GET", "/rows/live/", query)
    return _frames.reversed_rows(_frames.from_parquet(data, library), library)


def coverage(
    name: Name,
    start: Time | None = None,
    end: Time | None = None,
    *,
    output: str = "parquet",
    client: Client | None = None,
) -> dict[str, Any]:
    """Returns how many rows a dataset has on each day, before a download.

    The result has `rows`, the times `first` and `last` (None without rows), `days` with the rows of each
    date in UTC that has any, and `download_bytes`, the estimated size of a download as `output`.

    Args:
        name: Name or number of the dataset.
        start: First time, inclusive; by default the first row.
        end: Last time, inclusive; by default the latest row.
        output: "parquet", "arrow", "csv", "json" or "ndjson".
        client: Services to use; by default those that the commands use.

    Example:
        >>> triptych.coverage("synthetic_btcusd")["days"]      # doctest: +SKIP
        {datetime.date(2026, 7, 1): 1440}
    """
    client = client or Client()
    dataset = find_dataset(client, name)
    if dataset is None:
        raise TriptychError(f"there is no dataset {name} that the key can see")
    path = f"/datasets/{dataset['id']}/coverage/"
    query = {"output": output, "limit": ROWS_MAX, **_bounds(start, end)}
    found = page = client.datasets.get_json(path, query)
    days = {dt.date.fromisoformat(day["day"]): day["rows"] for day in page["days"]}
    while page["next"]:
        query["start"] = f"{max(days) + dt.timedelta(days=1)}T00:00:00Z"
        page = client.datasets.get_json(path, query)
        days.update({dt.date.fromisoformat(day["day"]): day["rows"] for day in page["days"]})
    ends = {end: found[end] and _time.parse(found[end]) for end in ("first", "last")}
    return {"rows": found["rows"], **ends, "days": days, "download_bytes": found["download_bytes"]}


def follow(
    name: Name,
    *,
    last: int = 0,
    since: Time | None = None,
    columns: list[str] | None = None,
    changes: bool = False,
    client: Client | None = None,
) -> Iterator[Row]:
    """Yields the rows of a dataset as they arrive, each once, as a dict with `timestamp` and values.

    A connection that is lost is opened again, and goes on after the last row. A row comes again only
    if it was corrected.

    Args:
        name: Name or number of the dataset.
        last: Number of the latest rows to begin with, at most 10 000.
        since: Time from which stored rows are yielded first, in place of `last`.
        columns: Columns to yield, in addition to `timestamp`; by default all.
        changes: Yields a dict with an `event` in place of each row: "data" or "correction" with the
            `row`, which replaced a stored row if it is a correction, and "deletion" with the times
            `start` and `end` between which rows were deleted. `start` is None for all rows up to `end`.
        client: Services to use; by default those that the commands use.

    Example:
        >>> for row in triptych.follow("synthetic_btcusd"):      # doctest: +SKIP
        ...     print(row["timestamp"], row["close"])
    """
    client = client or Client()
    which = {**_dataset(name), **_columns_of(columns)}
    if since is not None:
        before = max(_time.parse(since), EARLIEST + MICROSECOND) - MICROSECOND
        return _Follower(client, which, before, changes).rows()
    query = {**which, "limit": min(max(last, 1), ROWS_MAX), "output": "ndjson"}
    found = [_row(line) for line in client.datasets.call("GET", "/rows/live/", query).splitlines()]
    latest_at = found[0]["timestamp"] if found else EARLIEST
    follower = _Follower(client, which, latest_at, changes)
    return _chain([follower.item(row) for row in reversed(found[:last])], follower.rows())


def _chain(first: list[Row], others: Iterator[Row]) -> Iterator[Row]:
    yield from first
    yield from others


class _Follower:
    """A reader of a stream, and what it has seen."""

    def __init__(
        self, client: Client, which: dict[str, Any], latest_at: dt.datetime, changes: bool
    ) -> None:
        self.client, self.which, self.latest_at, self.changes = client, which, latest_at, changes
        self.last_event_id = ""
        self.recent: dict[dt.datetime, Row] = {}

    def rows(self) -> Iterator[Row]:
        pauses = Pauses(0.5, 30.0)
        while True:
            wait = 0.0
            try:
                yield from self._line(pauses)
            except ServiceError as error:
                if not error.is_passing:
                    raise
                wait = error.retry_after
            except (UnreachableError, http.client.HTTPException, OSError):
                pass
            clock.sleep(max(wait, pauses.next()))

    def _line(self, pauses: Pauses) -> Iterator[Row]:
        """Yields the new rows of one connection."""
        headers = {"Last-Event-ID": self.last_event_id} if self.last_event_id else {}
        is_resumed, n_rows, previous = bool(headers), 0, None
        path = "/rows/stream/"
        query = {**self.which, "changes": "true"} if self.changes else self.which
        line = self.client.datasets.open("GET", path, query, headers=headers, within=SILENCE_MAX_S)
        with line:
            for event, event_id, data in events(line):
                pauses.reset()
                if event == "reset":
                    is_resumed, self.last_event_id = False, ""
                if event == "deletion":
                    self.last_event_id = event_id
                    yield self._deletion(json.loads(data))
                if event not in ("data", "correction"):
                    continue
                row = _row(data)
                at = row["timestamp"]
                if n_rows == 0 and not is_resumed and at > self.latest_at:
                    yield from self._missed(at)
                # A stream that does not resume begins with the latest rows, in the order of their times.
                # The first row out of order is therefore new.
                n_rows += 1
                if previous is not None and previous >= at:
                    n_rows = REPLAY_ROWS + 1
                previous = at
                is_replay = not is_resumed and n_rows <= REPLAY_ROWS
                self.last_event_id = event_id or self.last_event_id
                if self._remember(row) and not (is_replay and at <= self.latest_at):
                    self.latest_at = max(self.latest_at, at)
                    yield self.item(row, event)

    def item(self, row: Row, event: str = "data") -> Row:
        """Returns the dict to yield for a row."""
        return {"event": event, "row": row} if self.changes else row

    def _deletion(self, data: dict[str, Any]) -> Row:
        """Forgets the deleted rows, since they may be inserted again with the same values."""
        start, end = data["start"] and _time.parse(data["start"]), _time.parse(data["end"])
        for at in [at for at in self.recent if at <= end and (start is None or at >= start)]:
            del self.recent[at]
        if self.latest_at <= end and (start is None or self.latest_at >= start):
            self.latest_at = EARLIEST if start is None else start - MICROSECOND
        return {"event": "deletion", "start": start, "end": end}

    def _missed(self, until: dt.datetime) -> Iterator[Row]:
        """Yields the rows between the latest one and the first of the replay."""
        if self.latest_at + MICROSECOND >= until:
            return
        start = None if self.latest_at == EARLIEST else self.latest_at + MICROSECOND
        query = {**self.which, "output": "ndjson", **_bounds(start, until - MICROSECOND)}
        path = "/rows/bulk_download/"
        with self.client.datasets.open("GET", path, query, within=DOWNLOAD_WITHIN_S) as lines:
            for line in lines:
                row = _row(line)
                if self._remember(row):
                    self.latest_at = max(self.latest_at, row["timestamp"])
                    yield self.item(row)

    def _remember(self, row: Row) -> bool:
        """Returns true if `row` is new or corrected."""
        if self.recent.get(row["timestamp"]) == row:
            return False
        # A copy, since the caller can change the row.
        self.recent[row["timestamp"]] = dict(row)
        if len(self.recent) > REMEMBERED_ROWS:
            del self.recent[min(self.recent)]
        return True


def insert(
    name: Name,
    frame: Frame,
    *,
    create: bool = False,
    time: str = "timestamp",
    tags: list[str] | None = None,
    description: str = "",
    metadata: dict[str, str] | None = None,
    merge: bool = False,
    client: Client | None = None,
) -> int:
    """Inserts rows into a dataset and returns the number of stored rows. On return they are durable.

    A row replaces the stored row of its time, so an insert can be repeated. NaN and None are no
    values. Times without a zone are in UTC, and stored in microseconds. The latest possible day is
    9999-12-29. Two rows with one time are an error, and so are an infinite value and a number with more
    digits than its column stores. After such an error nothing was created or stored. A long frame is
    inserted in several requests. If one of them fails, the error says how many rows were stored before.

    Args:
        name: Name or number of the dataset.
        frame: A DataFrame of pandas or polars, an Arrow table, or dicts.
        create: Creates the dataset and the columns that are missing.
        time: Column of the times; the index of a pandas frame without such a column.
        tags: Tags of a new dataset, whose holders can read it. "public" lets every key.
        description: Description of a new dataset.
        metadata: Metadata of a new dataset, such as `{"ticker": "btcusd"}`.
        merge: Changes only the columns that a row has a value in.
        client: Services to use; by default those that the commands use.

    Example:
        >>> triptych.insert("signals", frame, create=True)      # doctest: +SKIP
        1440
    """
    client = client or Client()
    new = _frames.Rows(frame, time)
    dataset = find_dataset(client, name)
    if dataset is None:
        if not create or not isinstance(name, str):
            hint = "" if not isinstance(name, str) else ": pass create=True to create it"
            raise TriptychError(f"there is no dataset {name} that the key can see{hint}")
    types = new.columns if dataset is None else _columns(client, dataset["id"])
    missing = {column: dtype for column, dtype in new.columns.items() if column not in types}
    if missing and not create:
        names = ", ".join(missing)
        raise TriptychError(f"dataset {name} has no column {names}: pass create=True to create it")
    types = {**types, **missing}
    # Nothing is created if the rows do not fit.
    new.cast(types)
    # Not retried, since a retry would fail if only the response of the first attempt was lost.
    if dataset is None:
        columns = [{"name": column, "dtype": dtype} for column, dtype in types.items()]
        new_dataset = {
            "name": name, "description": description, "columns": columns, "tags": tags or [],
            "metadata": metadata or {},
        }
        dataset = client.datasets.send_json("POST", "/datasets/", new_dataset, tries=1)
    number = dataset["id"]
    for column, dtype in missing.items():
        new_column = {"dataset": number, "name": column, "dtype": dtype}
        client.datasets.send_json("POST", "/columns/", new_column, tries=1)
    rows_max = min(BATCH_ROWS, ROWS_MAX if merge else BATCH_ROWS, BATCH_VALUES // max(len(types), 1)) or 1
    query = {"dataset": number, "mode": "merge" if merge else None}
    n_stored = 0
    for body in new.bodies(rows_max):
        headers = {"Content-Type": new.content_type, "Idempotency-Key": str(uuid.uuid4())}
        path, within = "/rows/bulk_insert/", INSERT_WITHIN_S
        try:
            done = client.datasets.call_json("POST", path, query, data=body, headers=headers, within=within)
        except TriptychError as error:
            if n_stored:
                error.args = (f"only the first {n_stored} rows were stored; after them: {error}",)
            raise
        n_stored += done["inserted"]
    return n_stored


def find_dataset(client: Client, name: Name) -> dict[str, Any] | None:
    """Returns the dataset with this name or number; `None` if the key sees none."""
    _dataset(name)
    if isinstance(name, numbers.Integral):
        try:
            dataset: dict[str, Any] = client.datasets.get_json(f"/datasets/{name}/")
            return dataset
        except ServiceError as error:
            if error.status == 404:
                return None
            raise
    query = {"search": name, "limit": 10}
    try:
        page = client.datasets.get_json("/datasets/", {**query, "dataset_name": name})
    except ServiceError as error:
        # The service chooses, except that other services ignore `dataset_name` and older ones reject it.
        if error.status != 400:
            raise
        page = client.datasets.get_json("/datasets/", query)
    found: list[dict[str, Any]] = [dataset for dataset in page["results"] if dataset["name"] == name]
    if len(found) > 1:
        ids = ", ".join(str(dataset["id"]) for dataset in found)
        raise TriptychError(f"several datasets are called {name}: pass one of the numbers {ids}")
    return found[0] if found else None


def time_before(client: Client, name: Name, time: dt.datetime, n_rows: int) -> dt.datetime:
    """Returns the time of the row that is `n_rows` rows before `time`, or of the first row."""
    while n_rows > 0:
        query = {**_dataset(name), "ordering": "-timestamp", "columns": "timestamp"}
        query.update({"after": _time.text(time), "limit": min(n_rows, ROWS_MAX)})
        page = client.datasets.get_json("/rows/", query)["results"]
        if not page:
            break
        time, n_rows = _time.parse(page[-1]["timestamp"]), n_rows - len(page)
    return time


def _columns(client: Client, dataset: int) -> dict[str, str]:
    page = client.datasets.get_json("/columns/", {"dataset": dataset})
    return {column["name"]: column["dtype"] for column in page["results"]}


def _dataset(name: Name) -> dict[str, Any]:
    if isinstance(name, numbers.Integral) and not isinstance(name, bool):
        return {"dataset": int(name)}
    if not isinstance(name, str) or not name:
        raise TriptychError(f"{name!r} is not a dataset: pass its name or its number")
    return {"dataset_name": name}


def _columns_of(columns: list[str] | None) -> dict[str, str]:
    """Returns the parameter that selects columns."""
    if columns is None:
        return {}
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise TriptychError(f"columns is {columns!r:.120}, expected a list of names")
    twice = _frames.duplicate(columns)
    if twice is not None:
        raise TriptychError(f"column `{twice}` is named twice: name it once")
    escaped = (column.replace("%", "%25").replace(",", "%2C") for column in columns)
    return {"columns": ",".join(escaped) or "timestamp"}


def _bounds(start: Time | None, end: Time | None) -> dict[str, str | None]:
    if start is not None and end is not None and _time.parse(start) > _time.parse(end):
        raise TriptychError(f"start {_time.text(start)} is after end {_time.text(end)}")
    bounds = (("start", start), ("end", end))
    return {name: None if at is None else _time.text(at) for name, at in bounds}


def _row(line: str | bytes) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TriptychError("the response of the dataset service is not JSON: check its address") from error
    return {"timestamp": _time.parse(row.pop("timestamp")), **row}
