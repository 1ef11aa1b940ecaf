"""Writes the Parquet files beside it, with pyarrow: one table in the forms that writers choose from."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq

N = 50
begin = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
moments = [begin + datetime.timedelta(minutes=i) for i in range(N)]
table = pa.table(
    {
        "open_time": pa.array(moments, pa.timestamp("us", tz="UTC")),
        "open": pa.array([None if i % 7 == 3 else i * 0.25 for i in range(N)], pa.float64()),
        "n": pa.array([i * i - 5 for i in range(N)], pa.int64()),
        "small": pa.array([None if i > 40 else i for i in range(N)], pa.uint32()),
        "flag": pa.array([i % 3 == 0 for i in range(N)], pa.bool_()),
        "name": pa.array([None if i % 5 == 4 else "abü"[i % 3] for i in range(N)], pa.string()),
        "none": pa.array([None] * N, pa.float32()),
    }
)
bare = table.replace_schema_metadata(None)
pq.write_table(bare, "default.parquet")
pq.write_table(bare, "zstd-v2.parquet", compression="zstd", data_page_version="2.0", version="2.6")
pq.write_table(bare, "gzip-groups.parquet", compression="gzip", row_group_size=7)
pq.write_table(bare, "plain-pages.parquet", compression="none", use_dictionary=False, data_page_size=16, write_batch_size=4)
pq.write_table(bare, "snappy-v2.parquet", compression="snappy", data_page_version="2.0", row_group_size=20, use_dictionary=["name"])
pq.write_table(bare, "int96.parquet", use_deprecated_int96_timestamps=True)
pq.write_table(bare.set_column(0, "open_time", table["open_time"].cast(pa.timestamp("ms", tz="UTC"))), "millis.parquet", version="1.0")
required = pa.schema([pa.field("open_time", pa.timestamp("ns", tz="UTC"), nullable=False), pa.field("n", pa.int64(), nullable=False)])
pq.write_table(pa.table([table["open_time"].cast(pa.timestamp("ns", tz="UTC")), table["n"]], schema=required), "required.parquet")
pq.write_table(pa.table({"a": [[1, 2], [3]]}), "nested.parquet")
pq.write_table(bare.select(["open_time", "n"]), "delta.parquet", use_dictionary=False, column_encoding={"n": "DELTA_BINARY_PACKED"})
numbers = ["1.50", "9007199254740992.00", "9007199254740993.00", "-9007199254740993.00", "9223372036854775808.00", "123456789012345.67"]
decimals = pa.array([decimal.Decimal(number) for number in numbers], pa.decimal128(38, 2))
pq.write_table(pa.table({"open_time": moments[: len(numbers)], "x": decimals}), "decimal.parquet")
