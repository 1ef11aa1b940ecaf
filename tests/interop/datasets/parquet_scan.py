"""Parquet scanned over HTTP by polars, DuckDB and fsspec, which read only the necessary parts. The key is a bearer
token or, for polars, a query parameter. Files of DuckDB and polars are inserted unchanged."""

import datetime
import io

import duckdb
import polars
import pyarrow.parquet as pq
from fsspec.implementations.http import HTTPFileSystem

import rows


class DatedHttp(HTTPFileSystem):
    """A file system with the modification time that DuckDB requires. The ETag shows that the file is the same."""

    def modified(self, path):
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)



def check(service):
    path = f"/api/rows/bulk_download/?dataset={service.bars}&output=parquet"
    url = service.url + path
    bearer = {"Authorization": f"Bearer {service.reader}"}
    head = service.call("HEAD", path)
    assert head.headers["accept-ranges"] == "bytes" and int(head.headers["content-length"]) > 0, head.headers
    beyond = service.call("GET", path, headers={"Range": f"bytes={head.headers['content-length']}-"})
    assert beyond.status_code == 416, beyond.status_code
    want = rows.bars()
    last_day = [row for row in want if row["timestamp"] >= "2026-07-30"]

    filesystem = DatedHttp(client_kwargs={"headers": bearer}, block_size=4096)
    with filesystem.open(url) as file:
        opened = pq.ParquetFile(file)
        described = opened.metadata
        index = opened.schema.names.index("timestamp")
        column = described.row_group(0).column(index)
        assert column.is_stats_set and column.has_offset_index and column.has_column_index, column
        assert opened.read(["close"]).column("close").to_pylist() == [row["close"] for row in want]

    connection = duckdb.connect()
    told = "fsspec"
    try:
        connection.execute("INSTALL httpfs; LOAD httpfs")
        connection.execute(f"CREATE SECRET (TYPE http, BEARER_TOKEN '{service.reader}')")
        told = "httpfs"
    except duckdb.Error:
        # The extension has to be downloaded, which may be impossible.
        connection.register_filesystem(filesystem)
    query = f"SELECT count(*), min(low), max(high) FROM read_parquet('{url}') WHERE timestamp >= '2026-07-30T00:00:00Z'::TIMESTAMPTZ"
    got = connection.execute(query).fetchone()
    assert got == (len(last_day), min(row["low"] for row in last_day), max(row["high"] for row in last_day)), got

    # The client cannot send headers, so the key is in the query.
    scanned = polars.scan_parquet(f"{url}&api_key={service.reader}", glob=False)
    from_day = scanned.filter(polars.col("timestamp") >= polars.lit("2026-07-30T00:00:00Z").str.to_datetime(time_zone="UTC"))
    assert from_day.select("close").collect()["close"].to_list() == [row["close"] for row in last_day]
    insert(service, polars.DataFrame(scanned.collect()))
    print(f"   polars, DuckDB ({told}) and fsspec scan {len(want)} rows over HTTP")


def insert(service, frame):
    """Inserts a file of polars, detected by its content type or its first bytes."""
    dataset = service.create("scanned", {name: "float" for name in rows.COLUMNS})
    for codec, headers in (("zstd", {"Content-Type": "application/vnd.apache.parquet"}), ("snappy", {})):
        body = io.BytesIO()
        frame.write_parquet(body, compression=codec)
        answer = service.call(
            "POST", "/api/rows/bulk_insert/", key=service.owner, params={"dataset": dataset}, headers=headers, data=body.getvalue()
        )
        assert answer.status_code == 201 and answer.json() == {"inserted": len(frame)}, answer.text
    stored = service.get("/api/rows/bulk_download/", dataset=dataset, output="json")
    assert stored.json() == rows.bars()
