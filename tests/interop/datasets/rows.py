"""Rows for the checks: bars of one pair, and a dataset with a column of each type."""

import random

from service import moment

BARS = "tiingo_btcusd_1min"
TYPED = "typed_1min"
FIRST_S = 1_785_196_800  # 2026-07-28T00:00:00Z
COLUMNS = ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"]
TYPES = {"price": "float", "n": "integer", "venue": "string", "is_open": "boolean"}
N_BARS = 3 * 24 * 60


def bars():
    """Returns three days of minutes with gaps."""
    draw = random.Random(7)
    close, made = 64_000.0, []
    for minute in range(N_BARS):
        opened, close = close, round(close * (1 + draw.uniform(-0.001, 0.001)), 2)
        volume = round(draw.uniform(0, 40), 8)
        if draw.random() < 0.02:
            continue
        made.append(
            {
                "timestamp": moment(FIRST_S + 60 * minute),
                "open": opened,
                "high": round(max(opened, close) * 1.0002, 2),
                "low": round(min(opened, close) * 0.9998, 2),
                "close": close,
                "volume": volume,
                "volume_notional": volume * (opened + close) / 2,
                "trades_done": draw.randrange(1000),
            }
        )
    return made


def typed():
    """Returns rows of all types with missing values, and numbers and texts that are difficult to preserve."""
    numbers = [0.1, -0.0, 1e-7, 1.5e300, 123456789012345680.0, 0.30000000000000004]
    integers = [0, -1, 2**53 - 1, -(2**53) + 1, 2**63 - 1, -(2**63)]
    texts = ["plain", "", 'a "quote", and a comma', "two\nlines", "žluťoučký 🐎", "tab\there"]
    made = []
    for minute in range(3_000):
        row = {"timestamp": moment(FIRST_S + 60 * minute)}
        if minute % 5:
            row["price"] = numbers[minute % 6] if minute % 7 else minute / 3
        if minute % 3:
            row["n"] = integers[minute % 6] if minute % 7 else minute
        if minute % 4:
            row["venue"] = texts[minute % 6]
        if minute % 2:
            row["is_open"] = minute % 3 == 0
        made.append(row)
    return made


def fill(service):
    """Creates the datasets."""
    metadata = {
        "source": "tiingo",
        "ticker": "btcusd",
        "provider": "forge-data-provider",
        "frequency": "1min",
    }
    service.bars = service.create(
        BARS,
        {name: "float" for name in COLUMNS},
        description="Tiingo 1-minute OHLCV data for BTCUSD",
        metadata=metadata,
    )
    service.typed = service.create(TYPED, TYPES, description="A column of each type")
    service.acquire()
    service.insert(service.bars, bars())
    service.insert(service.typed, typed())
