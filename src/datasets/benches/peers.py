"""DuckDB, SQLite and ClickHouse (chdb) doing what the dataset service does, on one thread each.

    python peers.py --rows N --folder DIR [--seconds S] [--peers PEER,PEER] [--parts ingest,export]

Needs duckdb, chdb, pyarrow and numpy. Prints a line of JSON for each figure: rows per second of
durable batches of 1 000, of a full export as JSON text, and as CSV. The rows are one-minute bars of
seven columns; moments are written as RFC 3339.

DuckDB and ClickHouse are measured without buckets ("ingest") and with those of five minutes, an hour
and a day ("ingest with buckets"), each kept the way its users would: what a batch has in a bucket is
added to what is there. That is less work than the service does, and wrong once a row comes late. The
bench `figures` has SQLite with buckets, in Rust; here it keeps none.
"""

import argparse
import csv
import json
import os
import sqlite3
import sys
import time

import numpy
import pyarrow

BATCH_ROWS = 1_000
FIRST_S = 1_420_070_400
LENGTHS_S = [300, 3_600, 86_400]
COLUMNS = ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"]


def bars(n_rows):
    """A table of bars: prices of two decimals, a volume of eight, a notional with all its digits."""
    random = numpy.random.default_rng(7)
    steps = (random.random(n_rows) - 0.5) * 0.0004
    close = numpy.round(64_000.0 * numpy.exp(numpy.cumsum(steps - steps.mean())), 2)
    opened = numpy.roll(close, 1)
    high = numpy.round(numpy.maximum(opened, close) * (1 + random.random(n_rows) * 0.0005), 2)
    low = numpy.round(numpy.minimum(opened, close) * (1 - random.random(n_rows) * 0.0005), 2)
    volume = numpy.round(random.random(n_rows) * 40, 8)
    notional = volume * (opened + close) / 2
    trades = numpy.round(random.random(n_rows) * 900)
    seconds = FIRST_S + 60 * numpy.arange(n_rows, dtype="int64")
    values = [opened, high, low, close, volume, notional, trades]
    return pyarrow.table([pyarrow.array(seconds)] + values, names=["seconds"] + COLUMNS)


def tell(peer, what, n_rows, began):
    """Prints a figure."""
    took = time.perf_counter() - began
    figure = {"peer": peer, "what": what, "rows": n_rows, "seconds": round(took, 3)}
    print(json.dumps(figure | {"rows_per_s": n_rows / took}), flush=True)


def batches(table, seconds, insert):
    """Inserts batches for so many seconds at most. Returns how many rows went in."""
    began, n_rows = time.perf_counter(), 0
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        if time.perf_counter() - began > seconds:
            break
        insert(batch)
        n_rows += batch.num_rows
    return n_rows


# One statement adds a batch to its buckets of all lengths. It is the fastest way of those tried: MERGE
# INTO without a key, UPDATE and INSERT from a temporary table, and INSERT OR REPLACE of what the rows
# of the touched days come to, which late rows would not make wrong, take a tenth longer.
DUCKDB_BUCKETS = """
INSERT INTO buckets
SELECT length, make_timestamp((seconds - seconds % length) * 1000000) AS ts, arg_min(open, seconds),
    max(high), min(low), arg_max(close, seconds), sum(volume), count(*)
FROM batch, (SELECT unnest({lengths}) AS length) GROUP BY ALL
ON CONFLICT DO UPDATE SET high = greatest(high, excluded.high), low = least(low, excluded.low),
    close = excluded.close, volume = volume + excluded.volume, count = count + excluded.count
"""


def duckdb(table, folder, seconds, parts):
    import duckdb

    create = "CREATE TABLE bars (ts TIMESTAMP, " + ", ".join(f"{c} DOUBLE" for c in COLUMNS) + ")"
    select = "SELECT make_timestamp(seconds * 1000000), " + ", ".join(COLUMNS)

    def ingest(what, add):
        with duckdb.connect(os.path.join(folder, f"{what}.duckdb")) as database:
            database.execute("SET threads = 1")
            database.execute(create)
            database.execute(
                "CREATE TABLE buckets (length INTEGER, ts TIMESTAMP, open DOUBLE, high DOUBLE, "
                "low DOUBLE, close DOUBLE, volume DOUBLE, count BIGINT, PRIMARY KEY (length, ts))"
            )

            def insert(batch):
                database.register("batch", pyarrow.Table.from_batches([batch]))
                database.execute("BEGIN")
                database.execute(f"INSERT INTO bars {select} FROM batch")
                if add:
                    database.execute(add)
                database.execute("COMMIT")

            began = time.perf_counter()
            tell("duckdb", what, batches(table, seconds, insert), began)

    if "ingest" in parts:
        ingest("ingest", None)
        ingest("ingest with buckets", DUCKDB_BUCKETS.format(lengths=LENGTHS_S))
    if "export" not in parts:
        return
    with duckdb.connect(os.path.join(folder, "export.duckdb")) as database:
        database.execute("SET threads = 1")
        database.execute(create)
        database.register("all_rows", table)
        database.execute(f"INSERT INTO bars {select} FROM all_rows")
        database.execute("CHECKPOINT")
        shown = "strftime(ts, '%Y-%m-%dT%H:%M:%SZ') AS timestamp, " + ", ".join(COLUMNS)
        for what, options in [("json", "FORMAT JSON, ARRAY true"), ("csv", "FORMAT CSV, HEADER")]:
            began = time.perf_counter()
            database.execute(f"COPY (SELECT {shown} FROM bars ORDER BY ts) TO '/dev/null' ({options})")
            tell("duckdb", what, table.num_rows, began)


def chdb(table, folder, seconds, parts):
    from chdb import session

    durable = "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"

    def create(name):
        columns = ", ".join(f"{c} Float64" for c in COLUMNS)
        return (
            f"CREATE TABLE {name} (ts DateTime('UTC'), {columns}) ENGINE = MergeTree ORDER BY ts "
            + durable
        )

    # A view for each length, which every insert fills before it returns.
    def view(name, length):
        return (
            f"CREATE MATERIALIZED VIEW {name}_{length} ENGINE = AggregatingMergeTree ORDER BY start "
            f"{durable} AS SELECT toStartOfInterval(ts, INTERVAL {length} SECOND) AS start, "
            "argMinState(open, ts) AS open, maxSimpleState(high) AS high, minSimpleState(low) AS low, "
            "argMaxState(close, ts) AS close, sumSimpleState(volume) AS volume, "
            f"sumSimpleState(toUInt64(1)) AS count FROM {name} GROUP BY start"
        )

    here = session.Session(os.path.join(folder, "chdb"))
    here.query("SET max_threads = 1")
    here.query("SET max_insert_threads = 1")
    here.query("CREATE DATABASE IF NOT EXISTS bench")
    here.query("USE bench")

    chosen = "toDateTime(seconds, 'UTC'), " + ", ".join(COLUMNS)

    def ingest(what, lengths):
        name = what.replace(" ", "_")
        here.query(create(name))
        for length in lengths:
            here.query(view(name, length))

        def insert(batch):
            global peers_batch
            peers_batch = pyarrow.Table.from_batches([batch])
            here.query(f"INSERT INTO {name} SELECT {chosen} FROM Python(peers_batch)")

        began = time.perf_counter()
        tell("chdb", what, batches(table, seconds, insert), began)

    if "ingest" in parts:
        ingest("ingest", [])
        ingest("ingest with buckets", LENGTHS_S)
    if "export" not in parts:
        here.close()
        return
    here.query(create("export"))
    global peers_table
    peers_table = table
    here.query(f"INSERT INTO export SELECT {chosen} FROM Python(peers_table)")
    here.query("OPTIMIZE TABLE export FINAL")
    shown = "ts AS timestamp, " + ", ".join(COLUMNS)
    settings = (
        "max_threads = 1, date_time_output_format = 'iso', output_format_parallel_formatting = 0, "
        "output_format_json_quote_64bit_integers = 0"
    )
    for what, form in [("json", "JSONEachRow"), ("csv", "CSVWithNames")]:
        file = os.path.join(folder, f"chdb.{what}")
        began = time.perf_counter()
        here.query(
            f"SELECT {shown} FROM export ORDER BY ts INTO OUTFILE '{file}' TRUNCATE COMPRESSION 'none' "
            f"FORMAT {form} SETTINGS {settings}"
        )
        tell("chdb", what, table.num_rows, began)
        os.remove(file)
    here.close()


def sqlite(table, folder, seconds, parts):
    database = sqlite3.connect(os.path.join(folder, "bars.sqlite"), isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    columns = ", ".join(f"{c} REAL" for c in COLUMNS)
    for name in ["ingest", "export"]:
        database.execute(f"CREATE TABLE {name} (ts INTEGER PRIMARY KEY, {columns})")
    places = ", ".join("?" * (len(COLUMNS) + 1))

    def rows(batch):
        return list(zip(*(column.to_pylist() for column in batch.columns)))

    ready = [rows(batch) for batch in table.slice(0, 500_000).to_batches(max_chunksize=BATCH_ROWS)]
    began, n_rows = time.perf_counter(), 0
    for batch in ready if "ingest" in parts else []:
        if time.perf_counter() - began > seconds:
            break
        database.execute("BEGIN")
        database.executemany(f"INSERT OR REPLACE INTO ingest VALUES ({places})", batch)
        database.execute("COMMIT")
        n_rows += len(batch)
    if "ingest" in parts:
        tell("sqlite", "ingest", n_rows, began)
    if "export" not in parts:
        return
    database.execute("BEGIN")
    for batch in ready:
        database.executemany(f"INSERT INTO export VALUES ({places})", batch)
    database.execute("COMMIT")
    n_rows = sum(map(len, ready))
    at = "strftime('%Y-%m-%dT%H:%M:%SZ', ts, 'unixepoch')"
    members = ", ".join(f"'{c}', {c}" for c in COLUMNS)
    with open(os.devnull, "w", newline="") as out:
        began = time.perf_counter()
        for (line,) in database.execute(
            f"SELECT json_object('timestamp', {at}, {members}) FROM export ORDER BY ts"
        ):
            out.write(line)
        tell("sqlite", "json", n_rows, began)
        began = time.perf_counter()
        listed = ", ".join(COLUMNS)
        csv.writer(out).writerows(database.execute(f"SELECT {at}, {listed} FROM export ORDER BY ts"))
        tell("sqlite", "csv", n_rows, began)
    database.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each ingest, at most")
    parser.add_argument("--peers", default="duckdb,chdb,sqlite")
    parser.add_argument("--parts", default="ingest,export")
    arguments = parser.parse_args()
    table = bars(arguments.rows)
    n_told = 0
    for peer in [duckdb, chdb, sqlite]:
        if peer.__name__ not in arguments.peers.split(","):
            continue
        try:
            peer(table, arguments.folder, arguments.seconds, arguments.parts.split(","))
            n_told += 1
        except Exception as error:  # a peer that is not there keeps no other from being measured
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            print(json.dumps({"peer": peer.__name__, "what": "all", "failed": told}), flush=True)
    sys.exit(0 if n_told else 1)


if __name__ == "__main__":
    main()
