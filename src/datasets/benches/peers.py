"""DuckDB, SQLite and ClickHouse (chdb) doing what the dataset service does, on one thread each.

    python peers.py --rows N --folder DIR [--seconds S]

Needs duckdb, chdb, pyarrow and numpy. Prints a line of JSON for each figure: rows per second of
durable batches of 1 000, of a full export as JSON text, and as CSV. The rows are one-minute bars of
seven columns; moments are written as RFC 3339. Peers keep no buckets, which spares them work.
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


def duckdb(table, folder, seconds):
    import duckdb

    create = "CREATE TABLE bars (ts TIMESTAMP, " + ", ".join(f"{c} DOUBLE" for c in COLUMNS) + ")"
    select = "SELECT make_timestamp(seconds * 1000000), " + ", ".join(COLUMNS)
    with duckdb.connect(os.path.join(folder, "ingest.duckdb")) as database:
        database.execute("SET threads = 1")
        database.execute(create)

        def insert(batch):
            rows = pyarrow.Table.from_batches([batch])
            database.register("batch", rows)
            database.execute(f"INSERT INTO bars {select} FROM batch")

        began = time.perf_counter()
        tell("duckdb", "ingest", batches(table, seconds, insert), began)
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


def chdb(table, folder, seconds):
    from chdb import session

    def create(name):
        columns = ", ".join(f"{c} Float64" for c in COLUMNS)
        return (
            f"CREATE TABLE {name} (ts DateTime('UTC'), {columns}) ENGINE = MergeTree ORDER BY ts "
            "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
        )

    here = session.Session(os.path.join(folder, "chdb"))
    here.query("SET max_threads = 1")
    here.query("SET max_insert_threads = 1")
    here.query("CREATE DATABASE IF NOT EXISTS bench")
    here.query("USE bench")
    here.query(create("ingest"))

    chosen = "toDateTime(seconds, 'UTC'), " + ", ".join(COLUMNS)

    def insert(batch):
        global peers_batch
        peers_batch = pyarrow.Table.from_batches([batch])
        here.query(f"INSERT INTO ingest SELECT {chosen} FROM Python(peers_batch)")

    began = time.perf_counter()
    tell("chdb", "ingest", batches(table, seconds, insert), began)
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


def sqlite(table, folder, seconds):
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
    for batch in ready:
        if time.perf_counter() - began > seconds:
            break
        database.execute("BEGIN")
        database.executemany(f"INSERT OR REPLACE INTO ingest VALUES ({places})", batch)
        database.execute("COMMIT")
        n_rows += len(batch)
    tell("sqlite", "ingest", n_rows, began)
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
    arguments = parser.parse_args()
    table = bars(arguments.rows)
    n_told = 0
    for peer in [duckdb, chdb, sqlite]:
        try:
            peer(table, arguments.folder, arguments.seconds)
            n_told += 1
        except Exception as error:  # a peer that is not there keeps no other from being measured
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            print(json.dumps({"peer": peer.__name__, "what": "all", "failed": told}), flush=True)
    sys.exit(0 if n_told else 1)


if __name__ == "__main__":
    main()
