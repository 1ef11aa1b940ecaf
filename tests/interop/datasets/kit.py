"""Requests of real clients, made with `requests`."""

import json
from datetime import datetime, timedelta, timezone

import pandas
import requests

import rows

FIRST = datetime.fromtimestamp(rows.FIRST_S, timezone.utc)
LAST = FIRST + timedelta(minutes=rows.N_BARS)


def text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def check(service):
    key, base = service.key("kit"), f"{service.url}/api"
    session = requests.Session()
    session.headers["X-API-Key"] = key

    def get(path, **params):
        answer = session.get(f"{base}{path}", params=params, timeout=60)
        assert answer.status_code == 200, f"{path} {params}: {answer.status_code} {answer.text}"
        return answer

    # Clients acquire the tag whenever they start, although they may already hold it.
    assert get("/datasets/", limit=1).json()["results"] == []
    acquire = lambda: session.post(f"{base}/tags/acquire/", json={"tag_name": "public"}, timeout=15)
    first = acquire()
    assert first.status_code in (200, 201) and first.json()["message"], first.text
    assert acquire().status_code == 409

    page = get("/datasets/", search=rows.BARS, limit=10).json()
    found = [one for one in page["results"] if one["name"] == rows.BARS]
    assert len(found) == 1 and isinstance(found[0]["id"], int), page
    dataset = found[0]["id"]
    every = get("/datasets/", search="tiingo", limit=250).json()
    assert every["next"] is None
    assert all(one["metadata"]["source"] and one["metadata"]["frequency"] for one in every["results"])
    assert get("/datasets/", search="ohlcv DATA", limit=50).json()["count"] == 1
    assert get(f"/datasets/{dataset}/").json() == found[0]
    assert get("/datasets/search/", ticker="btcusd").json()["results"] == found
    several = session.get(f"{base}/datasets/search/", params={"source": "tiingo", "ticker": "btcusd"})
    assert several.status_code == 400, several.text
    assert "multiple metadata filters are temporarily unsupported" in several.json()["error"]
    columns = get("/columns/", dataset=dataset).json()
    assert columns["count"] == 7 and [c["name"] for c in columns["results"]] == rows.COLUMNS

    pages(get, dataset)
    live(get, dataset)
    chunks(get, dataset)
    buckets(get)
    refusals(session, base, dataset)

    access = session.post(f"{base}/access/check/", json={"dataset_id": dataset, "require_write": False})
    assert access.json() == {"has_access": True, "is_owner": False, "matching_tags": ["public"]}
    access = session.post(f"{base}/access/check/", json={"dataset_id": dataset, "require_write": True})
    assert access.json()["has_access"] is False
    for path in ("/tags/", f"/datasets/{dataset}/tags/"):
        assert "public" in [tag["name"] for tag in get(path).json()["results"]]
    health = requests.get(f"{service.url}/health", timeout=5).json()
    assert health["status"] == "healthy" and health["database"] == "connected", health


def pages(get, dataset):
    """Reads a day by offset until `next` is null and by cursor in both directions, and the latest row."""
    want = [row for row in rows.bars() if row["timestamp"] < text(FIRST + timedelta(days=1))]
    bounds = {"start": text(FIRST), "end": text(FIRST + timedelta(days=1, seconds=-1))}
    got, offset = [], 0
    while True:
        page = get("/rows/", dataset=dataset, ordering="timestamp", limit=250, offset=offset, **bounds).json()
        got += page["results"]
        assert page["count"] == len(want)
        if page["next"] is None or not page["results"]:
            break
        offset += 250
    flat = [{"timestamp": row["timestamp"], **row["values"]} for row in got]
    assert flat == want
    for row in got[:100]:
        assert float(row["values"]["open"]) and int(row["values"].get("trades_done", 0)) >= 0
    pandas.to_datetime([row["timestamp"] for row in got], utc=True)

    for ordering, expected in (("timestamp", want), ("-timestamp", want[::-1])):
        after, seen = expected[0]["timestamp"], expected[:1]
        while after:
            page = get("/rows/", dataset_name=rows.BARS, after=after, limit=400, ordering=ordering, **bounds).json()
            assert page["count"] == 0
            seen += [{"timestamp": row["timestamp"], **row["values"]} for row in page["results"]]
            if page["next"] is None:
                break
            assert page["next"].startswith("/api/rows/?after=")
            after = seen[-1]["timestamp"]
        assert seen == expected, ordering

    newest = get("/rows/", dataset=dataset, limit=1, ordering="-timestamp").json()["results"]
    assert newest[0]["timestamp"] == rows.bars()[-1]["timestamp"]
    # The kit requests live data without an end, and more than a day of it.
    open_ended = get("/rows/", dataset=dataset, ordering="timestamp", limit=250, start=text(LAST - timedelta(hours=50)))
    assert len(open_ended.json()["results"]) == 250 and open_ended.json()["next"]


def live(get, dataset):
    answer = get("/rows/live/", dataset_name=rows.BARS, limit=3)
    got = [json.loads(line) for line in answer.text.splitlines()]
    assert got == rows.bars()[:-4:-1], got
    assert all(list(row) == sorted(row) for row in got), "flat rows have their keys in order"


def chunks(get, dataset):
    """Downloads fourteen days at a time, each a second after the previous ones."""
    got, start = [], FIRST - timedelta(days=20)
    while start < LAST:
        end = min(start + timedelta(days=14), LAST)
        got += get("/rows/bulk_download/", dataset=dataset, output="json", start=text(start), end=text(end)).json()
        start = end + timedelta(seconds=1)
    assert got == rows.bars()


def buckets(get):
    day = {"start": text(FIRST), "end": text(FIRST + timedelta(days=1))}
    answer = get("/rows/bulk_download/", dataset_name=rows.BARS, resolution="1h", output="csv", **day)
    head, *hours = answer.text.splitlines()
    assert head == "timestamp,open,high,low,close,volume,count" and len(hours) == 24, answer.text
    all_rows = rows.bars()
    for resolution, seconds in (("5m", 300), ("1h", 3600), ("1d", 86400)):
        page = get("/rows/", dataset_name=rows.BARS, resolution=resolution, limit=10_000, **day).json()
        frame = pandas.DataFrame(all_rows)
        frame.index = pandas.to_datetime(frame["timestamp"], utc=True)
        frame = frame[frame.index < pandas.Timestamp(FIRST + timedelta(days=1))]
        groups = frame.resample(f"{seconds}s")
        want = groups.agg({"open": "first", "high": "max", "low": "min", "close": "last", "volume": "sum"})
        want["count"] = groups["close"].count()
        want = want[want["count"] > 0]
        got = pandas.DataFrame(page["results"])
        assert list(got["timestamp"]) == [text(at) for at in want.index], resolution
        for name in ("open", "high", "low", "close", "count"):
            assert list(got[name]) == list(want[name]), (resolution, name)
        assert abs(got["volume"].to_numpy() - want["volume"].to_numpy()).max() < 1e-6, resolution


def refusals(session, base, dataset):
    missing = requests.get(f"{base}/datasets/", timeout=15)
    assert missing.status_code == 401 and missing.json() == {"error": "Missing API key"}, missing.text
    wide = {"dataset": dataset, "start": text(FIRST), "end": text(FIRST + timedelta(days=2))}
    answer = session.get(f"{base}/rows/", params=wide, timeout=15)
    error = (
        "time range exceeds maximum of 24h0m0s for resolution=raw; use a coarser resolution: bad request"
    )
    assert answer.status_code == 400 and answer.json() == {"details": None, "error": error}, answer.text
