"""Tests inserts of frames."""

import pandas
import polars
import pyarrow

import triptych
from errors import expect
from triptych import _frames

N_ROWS = 45_000  # more than a request has


def frame(n_rows=5):
    return pandas.DataFrame({
        "timestamp": pandas.date_range("2026-01-01", periods=n_rows, freq="s"),
        "price": [100.25 + number for number in range(n_rows)],
        "n": range(n_rows),
        "side": ["buy", "sell", "sell", "buy", "buy"] * (n_rows // 5),
        "is_open": [True, False, True, True, False] * (n_rows // 5),
    })


def frames_are_stored_and_read_back(_):
    want = frame()
    assert triptych.insert("trades", want, create=True, metadata={"ticker": "btc"}) == 5
    got = triptych.rows("trades")
    zoned = want.assign(timestamp=want["timestamp"].dt.tz_localize("UTC"))
    pandas.testing.assert_frame_equal(got, zoned[got.columns], check_dtype=False)
    berlin = zoned.assign(timestamp=zoned["timestamp"].dt.tz_convert("Europe/Berlin"))
    rows = want.to_dict("records")
    for name, form in {
        "of-index": want.set_index("timestamp"),
        "of-berlin": berlin,
        "of-texts": want.assign(timestamp=want["timestamp"].astype(str)),
        "of-polars": polars.from_pandas(want),
        "of-arrow": pyarrow.Table.from_pandas(want),
        "of-dicts": rows,
        "of-generator": (row for row in rows),
    }.items():
        assert triptych.insert(name, form, create=True) == 5, name
        pandas.testing.assert_frame_equal(triptych.rows(name), got)
    # Without pyarrow, rows are sent as lines of JSON.
    arrow_of, _frames._arrow_of = _frames._arrow_of, lambda *_: None
    try:
        for name, form in {"lines-pandas": want, "lines-polars": polars.from_pandas(want)}.items():
            assert triptych.insert(name, form, create=True) == 5
            pandas.testing.assert_frame_equal(triptych.rows(name), got)
    finally:
        _frames._arrow_of = arrow_of
    assert triptych.insert("long", frame(N_ROWS), create=True) == N_ROWS
    assert triptych.insert("long", frame(N_ROWS)) == N_ROWS, "a row replaces the stored one"
    assert len(triptych.rows("long")) == N_ROWS


def missing_values_are_left_out(_):
    gaps = frame().drop(columns=["n"])
    gaps.loc[1, "price"] = float("nan")
    gaps.loc[2, "side"] = None
    gaps["nothing"] = None
    for name, form in {
        "gaps-pandas": gaps, "gaps-polars": polars.from_pandas(gaps), "gaps-dicts": gaps.to_dict("records"),
    }.items():
        triptych.insert(name, form, create=True)
        got = triptych.rows(name)
        assert list(got["price"].isna()) == [False, True, False, False, False], name
        assert list(got["side"].isna()) == [False, False, True, False, False], name
        assert name == "gaps-polars" or "nothing" not in got.columns, "a column of no type is left out"
    # In pandas, a column of whole numbers with a missing value has floats.
    triptych.insert("trades", frame(), create=True)
    n = pandas.DataFrame({"timestamp": gaps["timestamp"], "n": [1, None, 3, 4, 5]})
    triptych.insert("trades", n, merge=True)
    assert triptych.rows("trades")["n"].tolist() == [1, 1, 3, 4, 5]
    assert triptych.rows("trades")["side"].tolist() == frame()["side"].tolist(), "others are kept"


def unfit_frames_are_rejected(_):
    triptych.insert("trades", frame(), create=True)
    times = frame()["timestamp"]
    new = pandas.DataFrame({"timestamp": times, "volume": 1.5})
    expect(lambda: triptych.insert("trades", new), "no column volume", "create=True")
    expect(lambda: triptych.insert("nowhere", new), "no dataset nowhere", "create=True")
    assert triptych.insert("trades", new, create=True) == 5
    assert triptych.rows("trades", columns=["volume"])["volume"].tolist() == [1.5] * 5
    expect(lambda: triptych.insert("trades", new.rename(columns={"timestamp": "time"})), "no column `timestamp`",
           "time=")
    assert triptych.insert("trades", new.rename(columns={"timestamp": "time"}), time="time") == 5
    expect(lambda: triptych.insert("trades", pandas.DataFrame({"timestamp": [1, 2], "volume": 1.0})), "not of times")
    expect(lambda: triptych.insert("trades", pandas.DataFrame({"timestamp": times, "n": 1.5})), "`n` is stored as integer")
    expect(lambda: triptych.insert("trades", pandas.DataFrame({"timestamp": times, "volume": "x"})), "volume")
    expect(lambda: triptych.insert("trades", pandas.DataFrame({"timestamp": [times[0], pandas.NaT], "n": 1})),
           "row 1 has no timestamp")
    expect(lambda: triptych.insert("trades", [{"timestamp": "2026-01-01", "n": 1}, {"timestamp": "x"}]), "row 1")
    for unfit in (pandas.DataFrame({"timestamp": times, "volume": float("inf")}),
                  [{"timestamp": "2026-01-01", "volume": float("inf")}]):
        expect(lambda: triptych.insert("trades", unfit), "volume")
    assert triptych.insert("trades", new.head(0)) == 0
