"""Keeps old rows on S3, and shows that readers see the same as of a service that keeps all in PostgreSQL.

    check.py program address-of-server program-of-S3 psql
"""

import json
import re
import sys
import tempfile
import threading
import time

from bucket import Bucket
from copies import check_copies
from services import Service, wait_until

N_DATASETS = 3
N_ROWS = 20_000
BATCH_ROWS = 5_000
# Rows are this far apart, in seconds.
STEP_S = 7
FIRST_S = 1_700_000_000
HOT_ROWS = 4_096
OBJECT_ROWS = 2_048
# Chunks of rows that stay in the database at most.
N_HOT_MAX = (HOT_ROWS + OBJECT_ROWS) // 1_024 - 1
# Kills between the upload of an object and the commit of its segment, and before its upload is done.
N_KILLS = 6
# Rows of each of these: with the last batch there are enough to seal some.
N_KILLED_ROWS = 2 * BATCH_ROWS
# When a row was stored, which differs.
CREATED_AT = re.compile('"created_at":"[^"]*",')


def timestamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(FIRST_S + second))


def rows(first, n, step=STEP_S, factor=1.0):
    """Rows from the one of number `first`, with a number, a text that recurs, and gaps."""
    made = []
    for nth in range(first, first + n):
        values = {"price": round(100 + (nth * 7919 % 1013) * factor, 3)}
        if nth % 5:
            values["venue"] = f"venue {nth % 17}"
        made.append({"timestamp": timestamp(nth * step), "values": values})
    return made


class Pair:
    """The same rows in both services."""

    def __init__(self, cold, plain):
        self.cold, self.plain = cold, plain
        self.datasets, self.columns = [], {}

    def create(self, has_text=True):
        columns = [{"name": "price", "dtype": "float"}, {"name": "venue", "dtype": "string"}]
        columns = columns if has_text else columns[:1]
        name = f"rows {len(self.datasets)}"
        body = {"name": name, "columns": columns}
        found = [it.done("POST", "/api/datasets/", body)["id"] for it in (self.cold, self.plain)]
        assert found[0] == found[1], "datasets have the same numbers in both services"
        self.datasets.append(found[0])
        self.columns[found[0]] = [column["name"] for column in columns]
        return found[0]

    def insert(self, dataset, batch):
        names = self.columns[dataset]
        batch = [row | {"values": {k: v for k, v in row["values"].items() if k in names}} for row in batch]
        for start in range(0, len(batch), BATCH_ROWS):
            body = {"dataset": dataset, "rows": batch[start : start + BATCH_ROWS]}
            for service in (self.cold, self.plain):
                service.done("POST", "/api/rows/bulk_insert/", body)

    def delete(self, dataset, first, last):
        path = f"/api/rows/?dataset={dataset}&start={timestamp(first)}&end={timestamp(last)}"
        gone = [it.done("DELETE", path) for it in (self.cold, self.plain)]
        assert gone[0] == gone[1], gone

    def same(self, path):
        """The text that both answer, which is equal."""
        texts = []
        for service in (self.cold, self.plain):
            status, _, text = service.call("GET", path)
            assert status == 200, f"{service.name} {path}: {status} {text[:500]}"
            texts.append(CREATED_AT.sub("", text))
        assert texts[0] == texts[1], f"{path}: the answers differ: {difference(*texts)}"
        return texts[0]

    def compare(self, dataset, n_rows):
        """Reads all in each way there is."""
        path = f"/api/rows/?dataset={dataset}"
        for ordering in ("timestamp", "-timestamp"):
            for offset in (0, 1, 2_000, n_rows // 2, n_rows - HOT_ROWS - 100, n_rows - 50):
                self.same(f"{path}&ordering={ordering}&limit=250&offset={offset}")
        self.by_cursor(path, n_rows)
        for first in (0, n_rows // 3, n_rows - HOT_ROWS - 500):
            start, end = timestamp(first * STEP_S), timestamp((first + 900) * STEP_S)
            self.same(f"{path}&start={start}&end={end}&limit=10000")
            self.same(f"{path}&start={start}&end={end}&ordering=-timestamp&limit=100&offset=300")
        for resolution in ("5m", "1h", "1d"):
            self.same(f"{path}&resolution={resolution}&limit=10000")
        self.same(f"/api/rows/live/?dataset={dataset}&limit={HOT_ROWS + 2_000}")
        download = f"/api/rows/bulk_download/?dataset={dataset}"
        csv = self.same(f"{download}&output=csv")
        assert len(csv.splitlines()) == n_rows + 1, f"{len(csv.splitlines())} lines of {n_rows}"
        self.same(f"{download}&output=parquet")
        self.same(f"{download}&output=csv&resolution=1h")

    def by_cursor(self, path, n_rows):
        after, n_seen = None, 0
        while True:
            where = f"&after={after}" if after else ""
            page = json.loads(self.same(f"{path}&ordering=timestamp&limit=5000{where}"))
            n_seen += len(page["results"])
            if page["next"] is None:
                break
            after = page["results"][-1]["timestamp"]
        assert n_seen == n_rows, f"{n_seen} rows by cursor instead of {n_rows}"


def difference(one, other):
    """Where two texts begin to differ."""
    at = next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return f"at {at} of {len(one)} and {len(other)}: {one[at - 50 : at + 100]!r} {other[at - 50 : at + 100]!r}"


class Stream(threading.Thread):
    """Follows a dataset from where `last_id` was, and keeps the values of rows and their ids."""

    def __init__(self, service, dataset, last_id=None):
        super().__init__(daemon=True)
        self.service, self.dataset, self.last_id = service, dataset, last_id
        self.rows, self.ids, self.events = [], [], []
        self.start()

    def run(self):
        for kind, last_id, data in self.service.stream(self.dataset, self.last_id):
            self.events.append(kind)
            if kind == "data":
                self.rows.append(data)
                self.ids.append(last_id)


def check_streams(pair, dataset, followed, n_rows):
    """A stream replays the newest rows, goes on with new ones, and is resumed."""
    services = (pair.cold, pair.plain)
    streams = [Stream(it, dataset) for it in services]
    wait_until(lambda: all("connected" in it.events for it in streams), "streams connect")
    pair.insert(dataset, rows(n_rows, 300))
    last = timestamp((n_rows + 299) * STEP_S)
    is_done = lambda stream: stream.rows and last in stream.rows[-1]
    wait_until(lambda: all(map(is_done, streams)), "rows are streamed")
    assert streams[0].rows == streams[1].rows
    # From rows that are on S3 by now, and from new ones.
    for before, n_seen in ((followed, N_ROWS - HOT_ROWS - 2_000), (streams, 11)):
        resumed = [Stream(it, dataset, was.ids[n_seen - 1]) for it, was in zip(services, before)]
        rest = before[0].rows[n_seen:]
        wait_until(lambda: all(map(is_done, resumed)), "streams are resumed")
        assert resumed[0].events == resumed[1].events and "reset" not in resumed[0].events
        assert resumed[0].rows == resumed[1].rows
        got = resumed[0].rows[: len(rest)]
        assert got == rest, f"resumed after {n_seen}: {len(got)} of {len(rest)}; {got[:2]} {rest[:2]}"
    return n_rows + 300


def check_changes(pair, cold, n_rows):
    """Late rows, corrections and deletions in rows that are on S3."""
    dataset = pair.datasets[0]
    # Between stored ones, and in place of stored ones.
    late = [row | {"timestamp": row["timestamp"].replace("Z", ".5Z")} for row in rows(3_000, 40)]
    pair.insert(dataset, late)
    pair.insert(dataset, rows(5_000, 300, factor=2.0))
    pair.delete(dataset, 1_000 * STEP_S, 1_499 * STEP_S)
    n_rows += len(late) - 500
    pair.compare(dataset, n_rows)
    cold.wait_until_sealed([dataset], N_HOT_MAX + 5)  # single chunks between objects stay
    pair.compare(dataset, n_rows)
    print("late rows, corrections and deletions on S3: as without S3")
    return n_rows


def check_kills(pair, cold, bucket):
    """The service is killed while it seals."""
    cold.wait_until_quiet()  # the objects to come are of these datasets
    datasets = [pair.create() for _ in range(N_KILLS)]
    for nth, dataset in enumerate(datasets):
        n_before = cold.count("objects WHERE state = 'staged'")
        # It stages nothing while S3 is lost, since it cannot claim the prefix.
        staging = cold.hold_staging()
        pair.insert(dataset, rows(0, N_KILLED_ROWS))
        wait_until(cold.is_staging, "an object is about to be staged")
        bucket.stop()
        staging.end()
        wait_until(lambda: cold.count("objects WHERE state = 'staged'") > n_before, "an object is staged")
        lock = None
        if nth % 2:
            # The commit of a segment waits for this.
            lock = cold.lock(dataset)
            bucket.resume()
            wait_until(lambda: bucket.files(dataset), "the object is written")
        cold.kill()
        if lock:
            lock.end()
        bucket.resume()
        cold.start()
    cold.age()
    cold.wait_until_sealed(datasets, N_HOT_MAX)
    for dataset in datasets:
        pair.compare(dataset, N_KILLED_ROWS)
    print(f"killed {N_KILLS} times while it seals: no row lost, none twice")


def check_lost(pair, cold, bucket, n_rows):
    """S3 is lost, and comes back."""
    dataset = pair.datasets[1]
    old = f"/api/rows/?dataset={dataset}&limit=250&ordering=timestamp&offset="
    newest = f"/api/rows/?dataset={dataset}&limit=250&ordering=-timestamp"
    cold.restart()  # without chunks in memory
    bucket.kill()
    started = time.monotonic()
    status, headers, text = cold.call("GET", f"{old}{3_000}")
    waited_s = time.monotonic() - started
    assert status == 503 and headers["Retry-After"], f"{status} {text}"
    assert "S3" in text, text
    pair.same(newest)
    health = cold.done("GET", "/health")
    assert health["status"] == "degraded", health
    dataset = pair.datasets[2]
    pair.insert(dataset, rows(n_rows, 6_000))
    pair.same(f"/api/rows/?dataset={dataset}&limit=250&ordering=-timestamp")
    bucket.start()
    wait_until(lambda: cold.call("GET", f"{old}{3_000}")[0] == 200, "rows on S3 are read again")
    cold.wait_until_sealed([dataset], N_HOT_MAX)
    pair.compare(dataset, n_rows + 6_000)
    assert cold.done("GET", "/health")["status"] == "healthy"
    print(f"S3 lost: old rows 503 after {waited_s:.1f} s, newest ones as before, sealing goes on after")


def check_deleted(pair, cold, bucket, n_rows):
    """Somebody deletes an object by hand, and puts it back."""
    dataset = pair.datasets[1]
    cold.restart()
    away = bucket.take_away(dataset)
    page = cold.call("GET", f"/api/rows/?dataset={dataset}&limit=250&ordering=timestamp")
    assert page[0] == 500 and "S3" in page[2], page
    pair.same(f"/api/rows/?dataset={dataset}&limit=250&ordering=-timestamp")
    for file, content in away.items():
        file.write_bytes(content)
    pair.compare(dataset, n_rows)
    print(f"an object deleted by hand: {json.loads(page[2])['error']}")


def check_swept(cold, bucket):
    """Objects that nothing refers to are deleted, and no others."""
    n_before = len(bucket.ids())
    cold.age()
    cold.restart("--cold-grace-hours", "0")
    wait_until(lambda: bucket.ids() == cold.live_objects(), "objects without rows are deleted")
    print(f"swept: {n_before - len(bucket.ids())} of {n_before} objects")


def main():
    program, server, s3, psql = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="interop-cold-") as home:
        bucket = Bucket(s3, home)
        options = ["--cold", bucket.url, "--hot-rows", str(HOT_ROWS), "--cold-object-rows", str(OBJECT_ROWS)]
        options += ["--cold-every", "1"]
        cold = Service(program, f"{server}/cold", home, "cold", psql, options)
        plain = Service(program, f"{server}/plain", home, "plain", psql, [])
        copied = Service(program, f"{server}/copied", home, "copied", psql, [])
        try:
            pair = Pair(cold, plain)
            check(pair, cold, bucket)
            copied.kill()
            check_copies(pair, bucket, copied)
        except BaseException:
            for process in (cold, plain, copied, bucket):
                lines = [line for line in process.log.read_text().splitlines() if '"info"' not in line]
                print("\n".join([f"== {process.name}", *lines[-12:]]), file=sys.stderr)
            raise
        finally:
            for process in (cold, plain, copied, bucket):
                process.kill()


def check(pair, cold, bucket):
    started = time.monotonic()
    first = pair.create(has_text=False)  # a stream of numbers replays more rows than stay hot
    followed = [Stream(it, first) for it in (pair.cold, pair.plain)]
    wait_until(lambda: all("connected" in it.events for it in followed), "streams connect")
    for n in range(N_DATASETS):
        pair.insert(pair.create() if n else first, rows(0, N_ROWS))
    wait_until(lambda: all(len(it.rows) >= N_ROWS for it in followed), "all rows are streamed")
    cold.wait_until_sealed(pair.datasets, N_HOT_MAX)
    assert cold.metric("cold_objects_written_total") >= N_DATASETS
    for dataset in pair.datasets:
        pair.compare(dataset, N_ROWS)
    n_objects, n_bytes = len(bucket.ids()), bucket.n_bytes()
    print(f"{N_DATASETS * N_ROWS} rows, {n_objects} objects of {n_bytes} bytes: as without S3")
    n_rows = check_streams(pair, pair.datasets[0], followed, N_ROWS)
    check_changes(pair, cold, n_rows)
    check_kills(pair, cold, bucket)
    check_lost(pair, cold, bucket, N_ROWS)
    check_deleted(pair, cold, bucket, N_ROWS)
    check_swept(cold, bucket)
    pair.compare(pair.datasets[1], N_ROWS)
    print(f"{time.monotonic() - started:.0f} s")


main()
