"""Tests inserts of frames."""

import contextlib
import datetime as dt
import itertools
from decimal import Decimal

import numpy
import pandas
import polars
import pyarrow

import triptych
from errors import expect
from triptych import _frames

N_ROWS = 45_000  # more than a request has
EARLIEST = -62_167_219_200_000_000  # the year 0 in microseconds


def frame(n_rows=5):
    return pandas.DataFrame({
        "timestamp": pandas.date_range("2026-01-01", periods=n_rows, freq="s"),
        "price": [100.25 + number for number in range(n_rows)],
        "n": range(n_rows),
        "side": ["buy", "sell", "sell", "buy", "buy"] * (n_rows // 5),
        "is_open": [True, False, True, True, False] * (n_rows // 5),
    })


@contextlib.contextmanager
def without_pyarrow():
    """Sends rows as lines of JSON, as without pyarrow."""
    arrow_of, _frames._arrow_of = _frames._arrow_of, lambda *_: None
    try:
        yield
    finally:
        _frames._arrow_of = arrow_of


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
    with without_pyarrow():
        for name, form in {"lines-pandas": want, "lines-polars": polars.from_pandas(want)}.items():
            assert triptych.insert(name, form, create=True) == 5
            pandas.testing.assert_frame_equal(triptych.rows(name), got)
    assert triptych.insert("long", frame(N_ROWS), create=True) == N_ROWS
    assert triptych.insert("long", frame(N_ROWS)) == N_ROWS, "a row replaces the stored one"
    assert len(triptych.rows("long")) == N_ROWS


def dataset_of_a_shared_name_is_that_of_reads(_):
    datasets = triptych.Client().datasets
    # The local stack has a dataset with this name that belongs to no key.
    shared = "synthetic_eurusd"
    columns = [{"name": "price", "dtype": "float"}]
    own = datasets.send_json("POST", "/datasets/", {"name": shared, "columns": columns})["id"]
    row = {"timestamp": "2026-01-01T00:00:00Z", "price": 1.5}
    assert triptych.insert(shared, [row]) == 1
    assert triptych.rows(own)["price"].tolist() == triptych.rows(shared)["price"].tolist() == [1.5]
    assert triptych.coverage(shared)["rows"] == 1
    datasets.call("DELETE", f"/datasets/{own}/")


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


def integers_and_booleans_are_exact_next_to_missing_values(_):
    times = pandas.date_range("2026-01-01", periods=3, freq="h")
    n, b = [2**60 + 1, None, 3], [True, None, False]
    gaps = pandas.DataFrame({"timestamp": times, "n": pandas.array(n, "Int64"), "b": pandas.array(b, "boolean")})
    triptych.insert("exact", gaps, create=True)
    for got in (triptych.rows("exact"), triptych.latest("exact")):
        assert got.dtypes[["n", "b"]].astype(str).tolist() == ["Int64", "boolean"]
        assert got["n"].dropna().tolist() == [2**60 + 1, 3] and got["b"].dropna().tolist() == [True, False]
    assert [row.get("n") for row in itertools.islice(triptych.follow("exact", last=3), 3)] == n
    whole = triptych.rows("exact", times[2])
    assert whole.dtypes[["n", "b"]].astype(str).tolist() == ["int64", "bool"]
    ranks = _frames.from_rows([{"rank": 2**60 + 1}, {"rank": None}], "pandas")["rank"]
    assert ranks.dtype == "Int64" and ranks[0] == 2**60 + 1
    settings = {"dataset": "exact", "column": "n", "horizon_seconds": 7200}
    tested = triptych.backtest(len, settings, times[0], times[2], every=3600, baseline=False)
    assert tested["truth"].tolist() == [3, 3]


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
        expect(lambda: triptych.insert("trades", unfit), "`volume` has an infinite value at 2026-01-01T00:00:00Z")
    assert triptych.insert("trades", new.head(0)) == 0


def rejected_frames_create_no_dataset(_):
    at, time = "at 2026-01-01T00:00:00.500000Z", dt.datetime(2026, 1, 1, microsecond=500_000)
    for value, reason in {float("inf"): "infinite value", -float("inf"): "infinite value", 2**64: "64 bits",
                          "\u00e4" * 5001: "a text of more than 10000 bytes"}.items():
        rows = [{"timestamp": time, "a": value}]
        expect(lambda: triptych.insert("unfit", rows, create=True), "`a` has", reason, at)
        if reason != "64 bits":
            expect(lambda: triptych.insert("unfit", pandas.DataFrame(rows), create=True), "`a` has", reason, at)
    for late in (dt.datetime.max, dt.datetime(9999, 12, 30), "9999-12-31"):
        rows = [{"timestamp": "2026-01-01", "a": 1}, {"timestamp": late, "a": 1}]
        for form in (rows, pandas.DataFrame(rows).astype({"timestamp": "datetime64[us]"})):
            expect(lambda: triptych.insert("unfit", form, create=True), "row 1", "up to 9999-12-29")
    early = pyarrow.table({"timestamp": pyarrow.array([EARLIEST - 1], pyarrow.timestamp("us")), "a": [1]})
    expect(lambda: triptych.insert("unfit", early, create=True), "row 0", "the years 0 to 9999")
    expect(lambda: triptych.rows("unfit"), "dataset not found")
    for name, edge in {"late": 253_402_127_999_999_999, "early": EARLIEST}.items():
        edge = pyarrow.table({"timestamp": pyarrow.array([edge], pyarrow.timestamp("us")), "a": [1]})
        assert triptych.insert(name, edge, create=True) == 1


def values_of_another_type_create_no_columns(_):
    time = dt.datetime(2026, 1, 1)
    stored = {"timestamp": time, "text": "x", "is_open": True, "n": 1, "price": 1.5}
    triptych.insert("typed", [stored], create=True)
    for column, value in {"text": 5, "is_open": 1}.items():
        for unfit in (value, str(value) if column == "is_open" else 0.5, True if column == "text" else 0.5):
            rows = [{"timestamp": time, column: unfit, "extra": 1.5}]
            for form in (rows, pandas.DataFrame(rows)):
                expect(lambda: triptych.insert("typed", form, create=True), f"column `{column}` is stored as", "convert")
    long = [{"timestamp": time, "text": "x" * 9_000, "more": "x" * 9_000}]
    for form in (long, pandas.DataFrame(long)):
        expect(lambda: triptych.insert("typed", form, create=True), "all texts of a row", "at 2026-01-01T00:00:00Z")
    expect(lambda: triptych.insert("typed", [{"timestamp": time, "n": "1_0"}]), "'1_0' is not a number")
    assert list(triptych.rows("typed").columns) == ["timestamp", "text", "is_open", "n", "price"]
    texts = [{"timestamp": time + dt.timedelta(hours=at), "n": str(at), "price": price}
             for at, price in enumerate(("0.5", "nan"))]
    for form in (texts, pandas.DataFrame(texts)):
        assert triptych.insert("typed", form) == 2
        got = triptych.rows("typed")
        assert got["n"].tolist() == [0, 1] and got["price"].isna().tolist() == [False, True]
    missing = pandas.DataFrame({"timestamp": [time], "text": [float("nan")], "is_open": [float("nan")], "n": [5]})
    assert triptych.insert("typed", missing, merge=True) == 1
    assert triptych.rows("typed")["n"].tolist() == [5, 1]


def duplicate_timestamps_are_rejected(_):
    times = pandas.date_range("2026-01-01", periods=2, freq="h")[[0, 1, 0, 1]]
    repeated = pandas.DataFrame({"timestamp": times, "n": range(4)})
    first = "rows 0 and 2 have the same timestamp 2026-01-01T00:00:00Z"
    indexed = repeated.set_index("timestamp")
    forms = {
        'frame[~frame.index.duplicated(keep="last")]': indexed,
        'frame.drop_duplicates("timestamp", keep="last")': repeated,
        'frame.unique("timestamp", keep="last", maintain_order=True)': polars.from_pandas(repeated),
        "keep one of them": pyarrow.Table.from_pandas(repeated),
        "keep one": repeated.to_dict("records"),
    }
    for hint, form in forms.items():
        expect(lambda: triptych.insert("repeated", form, create=True), first, hint)
    with without_pyarrow():
        for hint, form in forms.items():
            if not isinstance(form, pyarrow.Table):
                expect(lambda: triptych.insert("repeated", form, create=True), first, hint)
    expect(lambda: triptych.rows("repeated"), "dataset not found")
    assert triptych.insert("repeated", indexed[~indexed.index.duplicated(keep="last")], create=True) == 2
    assert triptych.rows("repeated")["n"].tolist() == [2, 3]
    # The second and the third row are in one microsecond, also before 1970.
    for nanos, stored in (([0, 1000, 1999, 2000], "1970-01-01T00:00:00.000001Z"),
                          ([-3000, -2000, -1001, 0], "1969-12-31T23:59:59.999998Z")):
        close = pandas.DataFrame({"timestamp": pandas.to_datetime(nanos, utc=True), "n": 1})
        for form in (close, pyarrow.Table.from_pandas(close), close.to_dict("records")):
            expect(lambda: triptych.insert("close", form, create=True),
                   "rows 1 and 2", stored, "stored in microseconds", str(nanos[2] % 1000))
    close = [{"timestamp": f"2026-01-01T00:00:00.{fraction}", "n": 1} for fraction in ("0000001", "0000002")]
    for form in (close, pandas.DataFrame(close)):
        expect(lambda: triptych.insert("close", form, create=True), "stored in microseconds", ".0000002")
    # Times before 1970 are rounded down, whatever has them.
    for name, form in {"old": pandas.DataFrame({"timestamp": pandas.to_datetime([-1]), "n": 1}),
                       "old-dicts": [{"timestamp": pandas.Timestamp(-1), "n": 1}]}.items():
        assert triptych.insert(name, form, create=True) == 1
        assert triptych.rows(name)["timestamp"].tolist() == [pandas.Timestamp(-1000, tz="UTC").as_unit("us")]


def unreadable_frames_are_explained(_):
    times = pandas.date_range("2026-01-01", periods=2, freq="h")

    def refused(form, *parts, has_cause=False, **options):
        error = expect(lambda: triptych.insert("unreadable", form, create=True, **options), *parts)
        assert (error.__cause__ is not None) == has_cause, repr(error.__cause__)

    for values in ([1, "x"], ["x", 1], [True, 1.5], [object(), object()], [2**70, 1], ["\ud800", "x"],
                   [Decimal("Infinity"), Decimal(1)], [1j, 2j]):
        column = pandas.Series(values, times, dtype=None if values == [1j, 2j] else object)
        refused(column.to_frame("a"), "column `a`", "convert", "frame['a'].astype(str)", has_cause=True)
    refused([{"timestamp": time, "a": value} for time, value in zip(times, (1, "x"))], "column `a` has both", "convert")
    twice = pandas.DataFrame([[1, 2]] * 2, times, ["a", "a"])
    refused(twice, "several columns are called `a`", "rename or drop")
    refused(type("Prices", (pandas.DataFrame,), {})(twice), "several columns are called `a`")
    refused(pyarrow.table([times, [1, 2], [3, 4]], ["timestamp", "a", "a"]), "several columns are called `a`")
    levels = pandas.MultiIndex.from_tuples([("Close", "A"), ("Close", "B")])
    refused(pandas.DataFrame([[1, 2]] * 2, times, levels), "several levels", "'_'.join")
    with without_pyarrow():
        refused(twice, "several columns are called `a`")
        refused(pandas.Series([1, 2], times), "Series")
    refused(pandas.Series([1, 2], times), "a Series of pandas", '.to_frame("value")')
    refused(polars.Series([1, 2]), "a Series of polars", '.to_frame("value")')
    refused(polars.LazyFrame({"timestamp": times.to_list()}), "LazyFrame", ".collect()")
    refused(polars.DataFrame({"timestamp": times.to_list(), "a": polars.Series([1, 2], dtype=polars.Int128)}),
            "cannot be read", has_cause=True)
    refused(pyarrow.array([1, 2]), "cannot be read", has_cause=True)
    refused(5, "5 has no rows", "pass a DataFrame")
    refused([{0: 1}], "no column `timestamp` among 0")
    both = pandas.DataFrame({"date": times, "timestamp": times, "a": 1})
    for form in (both, both.to_dict("records")):
        refused(form, "column `timestamp` would replace the times in `date`", time="date")
    for value in (numpy.timedelta64(5, "ns"), numpy.datetime64(5, "ns"), numpy.array([1, 2]), [1], dt.date.today()):
        refused([{"timestamp": times[0], "a": value}], "column `a` has a", "expected numbers")
    refused([{"timestamp": times[0], "a": "\ud800"}], "column `a`", "surrogates not allowed", has_cause=True)
    refused(pyarrow.table({"timestamp": pyarrow.array([10**14], pyarrow.timestamp("s"))}), "too late", has_cause=True)
    late = pandas.Timestamp(numpy.datetime64("20000-01-01", "s"))
    for time in (dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), late):
        refused([{"timestamp": time, "a": 1}], "years 1 to 9999", has_cause=True)
    refused([{"timestamp": "0001-01-01T00:00:00+02:00"}], "is not a time", has_cause=True)
    for time in (numpy.datetime64("NaT"), numpy.datetime64(10**15, "s")):
        refused([{"timestamp": time, "a": 1}], "is not a time", has_cause=True)
    refused([{"timestamp": times[0]}], "not JSON", metadata={"a": dt.date.today()}, has_cause=True)
    expect(lambda: triptych.rows("unreadable"), "dataset not found")


def less_common_types_are_stored(_):
    times = pandas.date_range("2026-01-01", periods=3, freq="h")
    texts = pyarrow.array(["x", None, "y"], pyarrow.string_view())
    views = pyarrow.table({"timestamp": pyarrow.array(times.astype(str)).cast(pyarrow.string_view()), "a": texts})
    coded = pandas.DataFrame({"timestamp": pandas.Categorical(times.astype(str)), "a": ["x", None, "y"]})
    dicts = [{"timestamp": numpy.datetime64(time, unit), "a": value}
             for time, unit, value in zip(times, ("h", "ns", "s"), ("x", pandas.NA, "y"))]
    for name, form in {"views": views, "coded": coded, "dicts": dicts}.items():
        assert triptych.insert(name, form, create=True) == 3
        got = triptych.rows(name)
        assert got["timestamp"].tolist() == times.tz_localize("UTC").tolist(), name
        assert got["a"].fillna("").tolist() == ["x", "", "y"], name
    assert len(triptych.rows("views", numpy.datetime64("2026-01-01T01"), numpy.datetime64("2026-01-02"))) == 2
    n = pandas.DataFrame({"timestamp": times, "n": pandas.array([1, None, 3], "Int64")})
    with without_pyarrow():
        assert triptych.insert("n", n, create=True) == 3
    assert triptych.rows("n")["n"].isna().tolist() == [False, True, False]


def digits_are_kept_or_rejected(_):
    time = pandas.Timestamp("2026-01-01")

    def forms(value):
        yield pandas.DataFrame({"timestamp": [time], "a": [value]})
        yield [{"timestamp": time, "a": value}]
        if isinstance(value, Decimal):
            column = pyarrow.array([value], pyarrow.decimal128(38, 18))
            yield pyarrow.table({"timestamp": [time], "a": column})
            yield polars.DataFrame({"timestamp": [time], "a": polars.Series([value], dtype=polars.Decimal(38, 18))})

    for text in ("12345678901234567890.12", "9007199254740993", "0.12345678901234567890"[:20]):
        for form in forms(Decimal(text)):
            expect(lambda: triptych.insert("digits", form, create=True), "`a` is stored as float", text, "to texts")
    expect(lambda: triptych.rows("digits"), "dataset not found")
    # Arrow casts 0.3 with 18 places to 0.30000000000000004.
    for text in ("0.3", "1.10", "-123456789.123456", "9007199254740992"):
        for number, form in enumerate(forms(Decimal(text))):
            triptych.insert(f"decimal-{number}", form, create=True)
            assert triptych.rows(f"decimal-{number}")["a"].tolist() == [float(text)], text
    for form in forms(2**53 + 1):
        expect(lambda: triptych.insert("decimal-0", form), "`a` is stored as float", "9007199254740993")
    mixed = [{"timestamp": time, "a": 0.5}, {"timestamp": time + pandas.Timedelta("1s"), "a": 10**400}]
    expect(lambda: triptych.insert("decimal-0", mixed), "`a` is stored as float")
    expect(lambda: triptych.insert("decimal-0", [{"timestamp": time, "a": "x"}]), "`a` is stored as float")
    triptych.insert("kinds", [{"timestamp": time, "text": "x", "whole": 1}], create=True)
    triptych.insert("kinds", [{"timestamp": time, "text": Decimal("1.10"), "whole": Decimal("2.0")}])
    assert triptych.rows("kinds")[["text", "whole"]].values.tolist() == [["1.10", 2]]
    expect(lambda: triptych.insert("kinds", [{"timestamp": time, "whole": Decimal("2.5")}]), "2.5 is not an integer")
