"""All formats of bulk downloads, read by pandas and pyarrow."""

import io
import json

import numpy
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet

import rows

DTYPES = {"price": "float64", "n": "Int64", "venue": "string", "is_open": "boolean"}
ARROW = {"price": "double", "n": "int64", "venue": "string", "is_open": "bool"}


def check(service):
    get = lambda dataset, output, **more: service.get(
        "/api/rows/bulk_download/", dataset=dataset, output=output, **more
    )
    wanted = {service.bars: rows.bars(), service.typed: rows.typed()}
    for dataset, want in wanted.items():
        assert get(dataset, "json").json() == want
        assert [json.loads(line) for line in get(dataset, "ndjson").text.splitlines()] == want
    read_bars(get, service.bars)
    read_typed(get, service.typed)
    read_buckets(get, service.bars)
    empty = {"start": "2001-01-01T00:00:00Z", "end": "2001-01-02T00:00:00Z"}
    table = pyarrow.parquet.read_table(io.BytesIO(get(service.typed, "parquet", **empty).content))
    assert table.num_rows == 0 and table.column_names == ["timestamp", *rows.TYPES]
    table = arrow(get(service.typed, "arrow", **empty).content)
    assert table.num_rows == 0 and table.column_names == ["timestamp", *rows.TYPES]
    print("   json, csv, ndjson, parquet and arrow read by pandas and pyarrow")


def moments(want):
    return pandas.to_datetime([row["timestamp"] for row in want], utc=True)


def arrow(content):
    """Reads an Arrow stream or file."""
    opened = pyarrow.ipc.open_file if content[:6] == b"ARROW1" else pyarrow.ipc.open_stream
    return opened(io.BytesIO(content)).read_all()


def frames(get, dataset, **more):
    """Returns the download in each format, as pandas reads it with no hints except for dates."""
    csv = get(dataset, "csv", **more).text
    parquet = get(dataset, "parquet", **more).content
    table = arrow(get(dataset, "arrow", **more).content)
    yield "csv, pandas", pandas.read_csv(io.StringIO(csv), parse_dates=["timestamp"], float_precision="round_trip")
    yield "csv, pyarrow", pyarrow.csv.read_csv(io.BytesIO(csv.encode())).to_pandas()
    ndjson = get(dataset, "ndjson", **more).content
    yield "ndjson, pandas", pandas.read_json(
        io.BytesIO(ndjson), lines=True, convert_dates=["timestamp"], precise_float=True
    )
    yield "ndjson, pyarrow", pyarrow.json.read_json(io.BytesIO(ndjson)).to_pandas()
    yield "parquet, pandas", pandas.read_parquet(io.BytesIO(parquet))
    yield "parquet, pyarrow", pyarrow.parquet.read_table(io.BytesIO(parquet)).to_pandas()
    yield "arrow, pyarrow", table.to_pandas()
    yield "feather, pandas", table.to_pandas()


def read_bars(get, dataset):
    want = rows.bars()
    for form, frame in frames(get, dataset):
        assert len(frame) == len(want), form
        assert (pandas.to_datetime(frame["timestamp"], utc=True) == moments(want)).all(), form
        for name in rows.COLUMNS:
            values = frame[name].to_numpy(dtype="float64")
            assert numpy.array_equal(values, numpy.array([row[name] for row in want], dtype="float64")), (form, name)
            if form.startswith(("parquet", "arrow", "feather")):
                assert frame[name].dtype == "float64", (form, name, frame[name].dtype)
    start = {"start": want[100]["timestamp"], "end": want[2_000]["timestamp"]}
    table = pyarrow.parquet.read_table(io.BytesIO(get(dataset, "parquet", **start).content))
    assert table.column("close").to_pylist() == [row["close"] for row in want[100:2_001]]


def read_typed(get, dataset):
    want = rows.typed()
    parquet = pyarrow.parquet.read_table(io.BytesIO(get(dataset, "parquet").content))
    for form, table in (("parquet", parquet), ("arrow", arrow(get(dataset, "arrow").content))):
        assert table.column_names == ["timestamp", *rows.TYPES], table.column_names
        stamp = table.schema.field("timestamp").type
        assert pyarrow.types.is_timestamp(stamp) and stamp.tz == "UTC", stamp
        assert list(table.column("timestamp").to_pandas()) == list(moments(want)), form
        for name, kind in ARROW.items():
            assert str(table.schema.field(name).type) == kind, (form, name, table.schema)
            got, wanted = table.column(name).to_pylist(), [row.get(name) for row in want]
            assert got == wanted, (form, name)
        table.validate(full=True)
    # Selected columns with and without statistics.
    chosen = pyarrow.parquet.read_table(io.BytesIO(get(dataset, "parquet").content), columns=["n"])
    assert chosen.column("n").to_pylist() == [row.get("n") for row in want]
    csv = pandas.read_csv(
        io.StringIO(get(dataset, "csv").text),
        dtype=DTYPES,
        float_precision="round_trip",
        keep_default_na=False,
        na_values={"price": [""], "n": [""], "is_open": [""]},
    )
    for name in ("price", "n", "is_open"):
        got = [None if pandas.isna(value) else value for value in csv[name]]
        assert got == [row.get(name) for row in want], ("csv", name)
    assert list(csv["venue"]) == [row.get("venue", "") for row in want]


def read_buckets(get, dataset):
    names = ["timestamp", "open", "high", "low", "close", "volume", "count"]
    want = get(dataset, "json", resolution="1h").json()
    assert len(want) == 72
    for form, frame in frames(get, dataset, resolution="1h"):
        assert sorted(frame.columns) == sorted(names), (form, list(frame.columns))
        assert (pandas.to_datetime(frame["timestamp"], utc=True) == moments(want)).all(), form
        for name in names[1:]:
            assert [float(value) for value in frame[name]] == [float(row[name]) for row in want], (form, name)
