"""Times as texts and as `datetime`, always in UTC."""

from __future__ import annotations

import datetime as dt
import re

from ._errors import TriptychError

Time = str | dt.datetime | dt.date
_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)? ?(Z|z|[+-]\d\d:?\d\d)?"
)


def parse(value: Time) -> dt.datetime:
    """Returns `value` in UTC. A text or a `datetime` without a zone is in UTC.

    >>> parse("2026-07-01 12:30").isoformat()
    '2026-07-01T12:30:00+00:00'
    >>> parse("2026-07-01T12:30:00.5+02:00").isoformat()
    '2026-07-01T10:30:00.500000+00:00'
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, dt.datetime):
        # A pandas.Timestamp is converted without its nanoseconds, which no dataset stores. NaT is the
        # only value that differs from itself.
        if value != value:
            raise TriptychError("the time is missing (NaT)")
        try:
            plain = dt.datetime(
                value.year, value.month, value.day, value.hour, value.minute, value.second,
                value.microsecond, value.tzinfo or dt.timezone.utc, fold=value.fold,
            )
            return plain.astimezone(dt.timezone.utc)
        except (OverflowError, ValueError) as error:
            raise TriptychError(f"{value!r} is not in the years 1 to 9999 of UTC: {error}") from error
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.timezone.utc)
    if type(value).__name__ == "datetime64":
        # A numpy.datetime64 of any unit. Out of the years of `datetime` it becomes an integer.
        plain = value.astype("datetime64[us]").item()
        if isinstance(plain, dt.datetime):
            return plain.replace(tzinfo=dt.timezone.utc)
    raise TriptychError(f"{value!r} is not a time: pass a text such as 2026-07-01T00:00:00Z or a datetime")


def _parse_text(text: str) -> dt.datetime:
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise TriptychError(f"{text!r} is not a time: write it like 2026-07-01 or 2026-07-01T00:00:00Z")
    day, clock, seconds, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z", "z") else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    micros = (fraction or "").ljust(6, "0")[:6]
    try:
        parsed = dt.datetime.fromisoformat(f"{day}T{clock or '00:00'}:{seconds or '00'}.{micros}{zone}")
        return parsed.astimezone(dt.timezone.utc)
    except (OverflowError, ValueError) as error:
        raise TriptychError(f"{text!r} is not a time: {error}") from error


def text(value: Time) -> str:
    """Returns `value` as services write times.

    >>> text("2026-07-01")
    '2026-07-01T00:00:00Z'
    """
    return parse(value).isoformat().replace("+00:00", "Z")
