"""Tests reads of rows as frames."""

import datetime as dt
import doctest
import importlib

import pandas

import triptych
from stack import MARKET


def doctests_pass(_):
    for name in ("_time", "_answers"):
        result = doctest.testmod(importlib.import_module(f"triptych.{name}"))
        assert result.attempted and not result.failed, result


def settled():
    """Returns a time before which no more rows arrive."""
    return triptych.latest(MARKET, 1)["timestamp"].iloc[0] - pandas.Timedelta("10s")


def rows_are_frames_of_three_libraries(_):
    end = settled()
    start = end - dt.timedelta(minutes=5)
    bars = triptych.rows(MARKET, start, end)
    assert list(bars.columns)[:5] == ["timestamp", "open", "high", "low", "close"], bars.columns
    assert str(bars["timestamp"].dtype) == "datetime64[us, UTC]" and bars["timestamp"].is_monotonic_increasing
    polars = triptych.rows(MARKET, start, end, frame="polars")
    arrow = triptych.rows(MARKET, start, end, client=triptych.Client(frame="arrow"))
    assert bars["close"].tolist() == polars["close"].to_list() == arrow["close"].to_pylist()
    close = triptych.rows(MARKET, start, end, columns=["close"])
    assert list(close.columns) == ["timestamp", "close"] and len(close) == len(bars)
    live = triptych.follow(MARKET, last=1, columns=["close"])
    assert [set(next(live)) for _ in range(2)] == [{"timestamp", "close"}] * 2
    hours = triptych.rows(MARKET, end - dt.timedelta(hours=3), end, resolution="1h")
    assert list(hours.columns) == ["timestamp", "open", "high", "low", "close", "volume", "count"]
    bars = triptych.rows(MARKET, end - dt.timedelta(hours=3), resolution="1h", fill="previous", complete=True)
    assert bars["complete"].tolist()[-1:] == [False] and bars["close"].notna().all()
    hours = triptych.rows(MARKET, resolution="1h", columns=["complete", "close"], complete=True, frame="polars")
    assert hours.columns == ["timestamp", "complete", "close"]
    earliest = next(triptych.follow(MARKET, since="0001-01-01"))["timestamp"]
    assert earliest == triptych.coverage(MARKET)["first"]
    days = triptych.rows(MARKET, resolution="1d", time_zone="Asia/Kathmandu")["timestamp"]
    assert {str(time.time()) for time in days.dt.tz_convert("Asia/Kathmandu")} == {"00:00:00"}
    covered = triptych.coverage(MARKET, end=end)
    assert sum(covered["days"].values()) == covered["rows"] and min(covered["days"]) == covered["first"].date()
    latest = triptych.latest(MARKET, 7)
    assert len(latest) == 7 and latest["timestamp"].is_monotonic_increasing


def times_without_a_zone_are_in_utc(_):
    end = settled()
    start = end - pandas.Timedelta("1min")
    want = triptych.rows(MARKET, start, end)
    for zone in (None, "Europe/Berlin"):
        bounds = [time.tz_convert(zone) if zone else time.tz_localize(None) for time in (start, end)]
        pandas.testing.assert_frame_equal(triptych.rows(MARKET, *bounds), want)
    texts = [str(time.tz_localize(None)) for time in (start, end)]
    pandas.testing.assert_frame_equal(triptych.rows(MARKET, *texts), want)


def empty_range_has_columns(_):
    none = triptych.rows(MARKET, "2001-01-01", "2001-01-02")
    assert len(none) == 0 and "close" in none.columns
    assert len(triptych.rows(MARKET, "2001-01-01", dt.date(2001, 1, 2), resolution="1d", frame="polars")) == 0
