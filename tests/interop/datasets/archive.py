"""Checks that archived rows, read by DuckDB and polars from the directory, equal the rows of the API."""

import contextlib
import json
import pathlib
import sqlite3
import time

import duckdb
import polars

from service import Service, lines, moment

JANUARY, FEBRUARY, MARCH = 1_735_689_600, 1_738_368_000, 1_740_787_200
COLUMNS = {"price": "float", "n": "integer", "note": "string", "flag": "boolean"}
WITHIN_S = 120


def row(second, more=0):
    n = second // 60
    return {
        "timestamp": moment(second),
        "price": None if n % 11 == 3 else n * 0.25 + more,
        "n": n * n - more,
        "note": None if n % 5 == 4 else "abü"[n % 3] * (n % 4 + 1) + str(more),
        "flag": n % 3 == 0,
    }


def by_api(service, dataset, names):
    query = {"dataset": dataset, "output": "ndjson", "start": moment(JANUARY), "end": moment(MARCH - 1)}
    found = lines(service.get("/api/rows/bulk_download/", **query).text)
    return [(one["timestamp"], *(one.get(name) for name in names)) for one in found]


def timestamp(micros):
    fraction = f".{micros % 1_000_000:06}".rstrip("0") if micros % 1_000_000 else ""
    return moment(micros // 1_000_000).removesuffix("Z") + fraction + "Z"


def by_duckdb(folder, names):
    files = f"{folder}/*/*.parquet"
    query = f"""SELECT epoch_us("timestamp"), {', '.join(names)}
        FROM read_parquet('{files}', hive_partitioning => false, union_by_name => true) ORDER BY 1"""
    return [(timestamp(first), *rest) for first, *rest in duckdb.sql(query).fetchall()]


def by_polars(folder, names):
    table = polars.scan_parquet(f"{folder}/*/*.parquet", hive_partitioning=False)
    table = table.select(polars.col("timestamp").dt.epoch("us"), *names).sort("timestamp").collect()
    return [(timestamp(first), *rest) for first, *rest in table.rows()]


def end_lease(service):
    """Removes the lease of the killed process, which would expire after half an hour."""
    path = pathlib.Path(service.folder.name) / "datasets.db"
    assert path.is_file(), path
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        store.execute("DELETE FROM archive_lease")


def archive(service, folder, n_rewritten):
    """Restarts the service with its archive, and waits until it has written `n` files."""
    service.kill()
    end_lease(service)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/*.parquet")}
    written = f'"n_files":{n_rewritten}'
    looked = service.log().count(written)
    service.options = ["--archive", f"file://{folder}", "--archive-after", "0d"]
    service.start()
    end = time.monotonic() + WITHIN_S
    while service.log().count(written) == looked:
        assert time.monotonic() < end, f"not archived:\n{service.log()[-2000:]}"
        time.sleep(0.1)
    after = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/*.parquet")}
    assert len(after) == 2 and all(before.get(path) != changed for path, changed in after.items())


def compare(service, dataset, folder, names):
    want = by_api(service, dataset, names)
    folder = folder / f"dataset={dataset}"
    for name, found in (("DuckDB", by_duckdb(folder, names)), ("polars", by_polars(folder, names))):
        wrong = [pair for pair in zip(want, found) if pair[0] != pair[1]]
        assert len(want) == len(found), f"{name} reads {len(found)} rows, the API {len(want)}"
        assert not wrong, f"{name} reads other rows than the API: {wrong[:3]}"
    return len(want)


def check(shared):
    service = Service(shared.program)
    try:
        service.start()
        service.acquire()
        dataset = service.create("archived", COLUMNS)
        recent = int(time.time()) // 60 * 60
        service.insert(dataset, [row(second) for second in range(JANUARY, JANUARY + 20_000 * 60, 60)])
        service.insert(dataset, [row(second) for second in range(FEBRUARY, FEBRUARY + 7_000 * 60, 60)])
        service.insert(dataset, [row(recent)])
        folder = pathlib.Path(service.folder.name) / "archive"
        folder.mkdir()
        archive(service, folder, 2)
        assert compare(service, dataset, folder, list(COLUMNS)) == 27_000

        # Inserts corrections, late rows, a deletion and a new column, which the next rewrite must
        # include.
        service.insert(dataset, [row(second, 7) for second in range(JANUARY, JANUARY + 9_000 * 60, 600)])
        service.insert(dataset, [row(second, 8) for second in range(FEBRUARY + 30, FEBRUARY + 9_030, 60)])
        bounds = {"dataset": dataset, "start": moment(FEBRUARY + 600), "end": moment(FEBRUARY + 1_199)}
        deleted = service.call("DELETE", "/api/rows/", key=service.owner, params=bounds)
        assert deleted.status_code == 200, deleted.text
        service.post("/api/columns/", {"dataset": dataset, "name": "extra", "dtype": "float"})
        service.insert(dataset, [{**row(JANUARY + 90), "extra": 0.5}])
        archive(service, folder, 2)
        n_rows = compare(service, dataset, folder, [*COLUMNS, "extra"])
        assert n_rows == 27_000 + 150 + 1 - json.loads(deleted.text)["deleted"]
    finally:
        service.close()
