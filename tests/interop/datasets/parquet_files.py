"""Parquet files of three writers with all their options, each with the expected result of an import.

A file has a timestamp column `ts` with a row per minute, and `v` or the columns of `TABLE`. The expected result
is the values of each column, or the names of the columns for which the file is refused.
"""

import datetime
import decimal
import itertools
import math
import pathlib
import uuid

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

N = 20
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
TIMES = [START + datetime.timedelta(minutes=i) for i in range(N)]
NAIVE = [at.replace(tzinfo=None) for at in TIMES]
TABLE = {
    "price": [None if i % 7 == 3 else i * 0.25 for i in range(N)],
    "n": [i * i - 5 for i in range(N)],
    "name": [None if i % 5 == 4 else "abü"[i % 3] * (i % 4 + 1) for i in range(N)],
    "flag": [i % 3 == 0 for i in range(N)],
}
REFUSED = ["v"]


class File:
    """A file, the options of its import, and its expected values or refused columns."""

    def __init__(self, name, write, want, flags=(), times=None, cut=0):
        self.name, self.write, self.want, self.flags = name, write, want, list(flags)
        self.times, self.cut = times or TIMES, cut


def every():
    """Returns all files. Each has a function that writes it to a path."""
    return [*pyarrow_options(), *pyarrow_types(), *polars_files(), *duckdb_files()]


def arrow_table(kind=pa.timestamp("us", tz="UTC"), times=TIMES):
    columns = {"ts": pa.array(times, kind), **{name: pa.array(values) for name, values in TABLE.items()}}
    return pa.table(columns)


def pyarrow_options():
    plain = arrow_table()
    options = {}
    for codec, version in itertools.product(["none", "snappy", "gzip", "brotli", "zstd", "lz4"], ["1.0", "2.0"]):
        options[f"{codec}-page{version[0]}"] = {"compression": codec, "data_page_version": version}
    for version in ("1.0", "2.4", "2.6"):
        options[f"format{version}"] = {"version": version}
    for page in ("1.0", "2.0"):
        short = f"-page{page[0]}"
        bare = {"use_dictionary": False, "data_page_version": page}
        options[f"no-dictionary{short}"] = bare
        encode = lambda **columns: {**bare, "column_encoding": columns}
        options[f"delta-packed{short}"] = encode(n="DELTA_BINARY_PACKED", ts="DELTA_BINARY_PACKED")
        options[f"split{short}"] = encode(price="BYTE_STREAM_SPLIT", n="BYTE_STREAM_SPLIT")
        options[f"delta-lengths{short}"] = encode(name="DELTA_LENGTH_BYTE_ARRAY")
        options[f"delta-texts{short}"] = encode(name="DELTA_BYTE_ARRAY")
        options[f"runs{short}"] = encode(flag="RLE")
        options[f"small-pages{short}"] = {**bare, "data_page_size": 16, "write_batch_size": 3}
        options[f"overflowing-dictionary{short}"] = {
            "dictionary_pagesize_limit": 8, "data_page_size": 8, "write_batch_size": 2, "data_page_version": page,
        }
    options |= {
        "no-statistics": {"write_statistics": False},
        "page-index": {"write_page_index": True},
        "checksums": {"write_page_checksum": True},
        "row-groups": {"row_group_size": 3},
        "each-column-its-codec": {"compression": {"ts": "gzip", "price": "brotli", "n": "none", "name": "zstd", "flag": "snappy"}},
        "level": {"compression": "zstd", "compression_level": 19},
        "no-arrow-schema": {"store_schema": False},
        "sorted": {"sorting_columns": [pq.SortingColumn(0)]},
        "dictionary-of-one": {"use_dictionary": ["name"]},
        "size-statistics": {"write_page_index": True, "data_page_size": 64},
        "bloom-filter": {"bloom_filter_options": {"n": {"ndv": 20, "fpp": 0.05}}},
    }
    for name, chosen in options.items():
        yield File(f"pyarrow-{name}", lambda path, chosen=chosen: pq.write_table(plain, path, **chosen), TABLE)
    required = pa.schema([pa.field(field.name, field.type, nullable=field.name in ("price", "name")) for field in plain.schema])
    yield File("pyarrow-required", lambda path: pq.write_table(plain.cast(required), path), TABLE)
    yield from pyarrow_times()


def pyarrow_times():
    finer = pa.array([int(at.timestamp()) * 10**9 + i for i, at in enumerate(TIMES)], pa.int64())
    write = lambda kind, times=TIMES, **options: (
        lambda path: pq.write_table(arrow_table(kind, times), path, **options)
    )
    for unit in ("s", "ms", "us", "ns"):
        yield File(f"pyarrow-ts-{unit}", write(pa.timestamp(unit, tz="UTC")), TABLE)
        yield File(f"pyarrow-ts-naive-{unit}", write(pa.timestamp(unit), NAIVE), TABLE)
    yield File("pyarrow-ts-zone", write(pa.timestamp("us", tz="America/New_York")), TABLE)
    there = [at + datetime.timedelta(hours=5) for at in TIMES]
    zone = ["--time-zone", "America/New_York"]
    yield File("pyarrow-ts-zoned", write(pa.timestamp("us"), NAIVE), TABLE, zone, there)
    yield File("pyarrow-ts-zone-ignored", write(pa.timestamp("us", tz="UTC")), TABLE, zone)
    yield File("pyarrow-int96", write(pa.timestamp("ns"), NAIVE, use_deprecated_int96_timestamps=True), TABLE)
    yield File("pyarrow-int96-zoned", write(pa.timestamp("ns"), NAIVE, use_deprecated_int96_timestamps=True), TABLE, zone, there)
    yield File("pyarrow-coerced", write(pa.timestamp("us"), NAIVE, coerce_timestamps="ms"), TABLE)
    cut = pa.table({"ts": finer.cast(pa.timestamp("ns", tz="UTC")), "v": pa.array(range(N), pa.float64())})
    want = {"v": [float(i) for i in range(N)]}
    yield File("pyarrow-ts-cut", lambda path: pq.write_table(cut, path), want, cut=N - 1)
    yield File("pyarrow-int96-cut", lambda path: pq.write_table(cut, path, use_deprecated_int96_timestamps=True), want, cut=N - 1)
    days = [START.date() + datetime.timedelta(days=i) for i in range(N)]
    dated = pa.table({"day": pa.array(days, pa.date32()), "time": pa.array([at.time() for at in TIMES], pa.time32("s")), "v": want["v"]})
    at = [datetime.datetime.combine(day, time.time(), datetime.timezone.utc) for day, time in zip(days, TIMES)]
    yield File("pyarrow-date-and-time", lambda path: pq.write_table(dated, path), want, times=at)


def pyarrow_types():
    tens = [None if i % 6 == 5 else i for i in range(N)]
    texts = [None if value is None else f"t{value}" for value in tens]
    numbers = {
        pa.float16(): [None if value is None else value / 4 for value in tens],
        pa.float32(): [None if value is None else value / 4 for value in tens],
        **{kind: tens for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    }
    for kind, values in numbers.items():
        yield of_type(kind, values, values)
    for kind in (pa.decimal32(7, 2), pa.decimal64(15, 3), pa.decimal128(9, 2), pa.decimal128(38, 10), pa.decimal128(5, 5)):
        values = [None if value is None else decimal.Decimal(value - 9) / 10**kind.scale for value in tens]
        yield of_type(kind, values, [None if value is None else float(value) for value in values])
    short = [None if value is None else decimal.Decimal(value - 9) / 100 for value in tens]
    stored = lambda path: pq.write_table(table_of(pa.decimal128(9, 2), short), path, store_decimal_as_integer=True)
    yield File("pyarrow-decimal-as-integer", stored, {"v": [None if value is None else float(value) for value in short]})
    yield of_type(pa.decimal128(18, 0), [None if v is None else decimal.Decimal(v) for v in tens], tens)
    yield of_type(pa.decimal256(76, 2), short, REFUSED)
    large = [2**63 - 1, 2**63, *range(N - 2)]
    yield of_type(pa.uint64(), large, REFUSED, "beyond")
    yield File("pyarrow-uint64-as-float", lambda path: pq.write_table(table_of(pa.uint64(), large), path),
               {"v": [float(value) for value in large]}, ["--type", "v=float"])
    yield of_type(pa.uint64(), [2**63 - 1] * N, [2**63 - 1] * N, "most")
    yield of_type(pa.float64(), [*range(N - 1), math.inf], REFUSED, "infinite")
    yield of_type(pa.float64(), [*range(N - 1), math.nan], [*range(N - 1), None], "nan")
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        yield of_type(kind, texts, texts)
    yield of_type(pa.string(), ["x" * 10_001] * N, REFUSED, "long")
    yield of_type(pa.date32(), [START.date()] * N, ["2026-03-01"] * N)
    yield of_type(pa.date64(), [START.date()] * N, ["2026-03-01"] * N)
    for unit, kind in (("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        yield of_type(kind(unit), [datetime.time(9, 30, 5)] * N, ["09:30:05"] * N)
    yield of_type(pa.duration("us"), [datetime.timedelta(seconds=i) for i in range(N)], [i * 10**6 for i in range(N)])
    yield of_type(pa.timestamp("us", tz="UTC"), TIMES, [text(at) for at in TIMES])
    yield of_type(pa.bool_(), [i % 2 == 0 for i in range(N)], [i % 2 == 0 for i in range(N)])
    yield of_type(pa.null(), [None] * N, [None] * N)
    yield of_type(pa.uuid(), [uuid.UUID(int=i).bytes for i in range(N)], [str(uuid.UUID(int=i)) for i in range(N)])
    yield of_type(pa.json_(), ["{}"] * N, ["{}"] * N)
    yield of_type(pa.binary(), [b"\xff\x00"] * N, REFUSED)
    yield of_type(pa.binary(4), [b"abcd"] * N, REFUSED)
    yield of_type(pa.list_(pa.int64()), [[i] for i in range(N)], REFUSED)
    yield of_type(pa.struct({"a": pa.int64()}), [{"a": i} for i in range(N)], REFUSED)
    yield of_type(pa.map_(pa.string(), pa.int64()), [[("a", i)] for i in range(N)], REFUSED)
    mixed = arrow_table().append_column("lists", pa.array([[i] for i in range(N)]))
    yield File("pyarrow-left-out", lambda path: pq.write_table(mixed, path), TABLE, ["--leave-out", "lists"])


def table_of(kind, values):
    return pa.table({"ts": pa.array(TIMES, pa.timestamp("us", tz="UTC")), "v": pa.array(values, kind)})


def of_type(kind, values, want, note=""):
    want = want if want is REFUSED else {"v": want}
    return File(f"pyarrow-{kind}{note}", lambda path: pq.write_table(table_of(kind, values), path), want)


def polars_files():
    frame = polars.DataFrame({"ts": polars.Series(TIMES, dtype=polars.Datetime("us", "UTC")), **TABLE})
    options = {f"{codec}": {"compression": codec} for codec in ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4")}
    options |= {
        "no-statistics": {"statistics": False},
        "all-statistics": {"statistics": "full"},
        "row-groups": {"row_group_size": 3},
        "small-pages": {"data_page_size": 16},
        "pyarrow": {"use_pyarrow": True},
        "no-arrow-schema": {"arrow_schema": None},
    }
    for name, chosen in options.items():
        yield File(f"polars-{name}", lambda path, chosen=chosen: frame.write_parquet(path, **chosen), TABLE)

    def of(dtype, values, want, note=""):
        made = polars.DataFrame({"ts": frame["ts"], "v": polars.Series(values, dtype=dtype)})
        want = want if want is REFUSED else {"v": want}
        return File(f"polars-{dtype}{note}", lambda path: made.write_parquet(path), want)

    tens = list(range(N))
    for dtype in (polars.Int8, polars.Int16, polars.UInt8, polars.UInt16, polars.UInt32, polars.UInt64):
        yield of(dtype, tens, tens)
    yield of(polars.UInt64, [2**64 - 1, *tens[1:]], REFUSED, "-beyond")
    yield of(polars.Float32, [i / 4 for i in tens], [i / 4 for i in tens])
    yield of(polars.Decimal(12, 3), [decimal.Decimal(i) / 1000 for i in tens], [i / 1000 for i in tens])
    texts = [f"t{i % 3}" for i in tens]
    yield of(polars.Categorical, texts, texts)
    yield of(polars.Enum(["t0", "t1", "t2"]), texts, texts)
    yield of(polars.Date, [START.date()] * N, ["2026-03-01"] * N)
    yield of(polars.Time, [datetime.time(9, 30, 5)] * N, ["09:30:05"] * N)
    for unit in ("ms", "us", "ns"):
        yield of(polars.Datetime(unit), NAIVE, [text(at) for at in TIMES])
    yield of(polars.Duration("us"), [datetime.timedelta(seconds=i) for i in tens], [i * 10**6 for i in tens])
    yield of(polars.Null, [None] * N, [None] * N)
    yield of(polars.Binary, [b"\xff"] * N, REFUSED)
    yield of(polars.List(polars.Int64), [[i] for i in tens], REFUSED)
    yield of(polars.Struct({"a": polars.Int64}), [{"a": i} for i in tens], REFUSED)


def duckdb_files():
    table = arrow_table()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("made", table)

    def copy(query, options=""):
        return lambda path: connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")

    options = {codec: f", COMPRESSION {codec}" for codec in ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")}
    options |= {
        "v1": ", PARQUET_VERSION v1",
        "v2": ", PARQUET_VERSION v2",
        "v2-no-dictionary": ", PARQUET_VERSION v2, DICTIONARY_SIZE_LIMIT 1",
        "row-groups": ", ROW_GROUP_SIZE 3",
        "no-bloom-filter": ", WRITE_BLOOM_FILTER false",
        "level": ", COMPRESSION zstd, COMPRESSION_LEVEL 19",
        "field-ids": ", FIELD_IDS 'auto'",
    }
    for name, chosen in options.items():
        yield File(f"duckdb-{name}", copy("SELECT * FROM made", chosen), TABLE)

    def of(kind, value, want, note=""):
        want = want if want is REFUSED else {"v": [want(i) for i in range(N)]}
        query = f"SELECT ts, ({value})::{kind} AS v FROM (SELECT ts, row_number() OVER (ORDER BY ts) - 1 AS i FROM made) ORDER BY ts"
        return File(f"duckdb-{kind}{note}", copy(query), want)

    for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"):
        yield of(kind, "i", lambda i: i)
    yield of("UBIGINT", "18446744073709551615 - i::HUGEINT", REFUSED, "-beyond")
    for kind in ("HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE"):
        yield of(kind, "i", float)
    for kind in ("DECIMAL(4,1)", "DECIMAL(9,2)", "DECIMAL(18,4)", "DECIMAL(38,6)"):
        yield of(kind, "i / 2", lambda i: i / 2)
    yield of("DOUBLE", "CASE WHEN i = 7 THEN 'inf'::DOUBLE ELSE i END", REFUSED, "-infinite")
    for kind in ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMPTZ"):
        yield of(kind, "TIMESTAMP '2026-03-01 09:30:05'", lambda i: "2026-03-01T09:30:05Z")
    yield of("TIMESTAMP", "CASE WHEN i = 7 THEN 'infinity'::TIMESTAMP ELSE '2026-03-01'::TIMESTAMP END", REFUSED, "-infinite")
    yield of("DATE", "DATE '2026-03-01'", lambda i: "2026-03-01")
    yield of("TIME", "TIME '09:30:05.5'", lambda i: "09:30:05.500000")
    yield of("TIMETZ", "TIMETZ '09:30:05+00'", lambda i: "09:30:05")
    yield of("UUID", "'00000000-0000-0000-0000-00000000000a'", lambda i: "00000000-0000-0000-0000-00000000000a")
    yield of("ENUM('a', 'b')", "'b'", lambda i: "b")
    yield of("BIT", "'101'", lambda i: "101")
    yield of("BOOLEAN", "i % 2 = 0", lambda i: i % 2 == 0)
    yield of("INTERVAL", "INTERVAL 1 day", REFUSED)
    yield of("BLOB", "'\\xFF\\x00'::BLOB", REFUSED)
    yield of("BIGINT[]", "[i]", REFUSED)
    yield of("STRUCT(a BIGINT)", "{'a': i}", REFUSED)
    yield of("MAP(VARCHAR, BIGINT)", "MAP {'a': i}", REFUSED)


def text(at):
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def write_all(folder):
    """Writes all files, and returns them with their paths. Files that their writer refuses are skipped."""
    seen = set()
    for number, file in enumerate(every()):
        assert file.name not in seen, file.name
        seen.add(file.name)
        path = pathlib.Path(folder) / f"{number:03}.parquet"
        file.write(path)
        yield file, path
