"""Old rows on S3: that they are moved there, and what goes on while it is lost."""

import json

from processes import wait_until
from wire import call

# So few that rows are moved during the test, and so many that a writer who is behind the others does not
# write where rows were moved already: that needs S3.
HOT_ROWS = 2048
OBJECT_ROWS = 1024
# Services look for old rows so often, in seconds.
MOVES_EVERY_S = 1
# How long a service that is lost while it moves rows of a dataset keeps others from that, and more.
CLAIM_S = 600
# Until all datasets have that many old rows, on a busy machine.
MOVED_WITHIN_S = 180


class OldRows:
    """The rows that were moved. `database` is the name of the services' database."""

    def __init__(self, cluster, services, bucket, database):
        self.cluster, self.services, self.bucket = cluster, services, bucket
        self.database = database

    @staticmethod
    def options(bucket):
        """What a service is to be started with."""
        options = ["--cold", bucket.url, "--cold-every", MOVES_EVERY_S]
        options += ["--hot-rows", HOT_ROWS, "--cold-object-rows", OBJECT_ROWS]
        return [str(option) for option in options]

    async def query(self, sql):
        """The lines that the leader answers with, once there is one."""
        lines = None

        async def is_answered():
            nonlocal lines
            leader = await self.cluster.leader()
            lines = leader and await leader.query(sql, self.database)
            return lines is not None

        await wait_until(is_answered, "the database answers")
        return [line.split(",") for line in lines.splitlines()]

    async def last_segments(self):
        """The number of the last segment of each dataset that has any."""
        found = await self.query("SELECT dataset, max(id) FROM datasets.segments GROUP BY dataset")
        return {int(dataset): int(last) for dataset, last in found}

    async def wait_until_moved(self, datasets, since=None):
        """Waits until rows of all these datasets have been moved, since the last segments were these."""
        since = since or {}

        async def are_moved():
            last = await self.last_segments()
            return all(last.get(dataset, 0) > since.get(dataset, 0) for dataset in datasets)

        await wait_until(are_moved, "old rows are moved to S3", MOVED_WITHIN_S)

    async def page(self, port, dataset, ordering):
        path = f"/api/rows/?dataset={dataset}&limit=100&ordering={ordering}"
        status, text = await call(port, self.services.key, "GET", path)
        return status, json.loads(text) if text else None

    async def health(self, port):
        status, text = await call(port, self.services.key, "GET", "/health")
        return json.loads(text)["status"] if status == 200 else None

    async def lose(self, load):
        """Kills S3 under a load, and a service with what it has in memory; all goes on but for old rows,
        which are moved again when S3 is back."""
        services, datasets = self.services, load.datasets
        await self.wait_until_moved(datasets)
        before = await self.last_segments()
        self.bucket.kill()
        services.replicas[0].kill()
        services.replicas[0].start()
        new = services.ports[0]

        async def is_degraded():
            return await self.health(new) == "degraded"

        await wait_until(is_degraded, "a service starts without S3")
        n_refused = sum(writer.n_refused for writer in load.writers)
        await load.go_on()
        n_refused = sum(writer.n_refused for writer in load.writers) - n_refused
        for dataset in datasets:
            for port in services.ports:
                status, page = await self.page(port, dataset, "-timestamp")
                assert status == 200 and len(page["results"]) == 100, f"newest rows: {status} {page}"
            status, page = await self.page(new, dataset, "timestamp")
            assert status == 503 and "S3" in page["error"], f"old rows: {status} {page}"
        self.bucket.start()

        async def are_healthy():
            return all([await self.health(port) == "healthy" for port in services.ports])

        await wait_until(are_healthy, "all services have S3 again")
        for dataset in datasets:
            status, page = await self.page(new, dataset, "timestamp")
            assert status == 200, f"old rows: {status} {page}"
        await self.release_claims()
        await self.wait_until_moved(datasets, before)
        print(f"without S3 {n_refused} inserts were sent again")

    async def release_claims(self):
        """Has objects that were begun be as old as if those who began them had been given up."""
        micros = CLAIM_S * 1_000_000
        await self.query(f"UPDATE datasets.objects SET at = at - {micros} WHERE state = 'staged'")

    async def check(self, datasets):
        """Shows that rows of all these datasets are in objects that the bucket has."""
        sql = "SELECT s.dataset, count(*), sum(s.n), count(DISTINCT o.id) FROM datasets.segments s"
        sql += " JOIN datasets.objects o ON o.id = s.object AND o.state = 'live' GROUP BY s.dataset"
        counts = {int(line[0]): map(int, line[1:]) for line in await self.query(sql)}
        assert set(datasets) <= counts.keys(), f"{datasets} have rows on S3: {list(counts)}"
        live = {id for id, in await self.query("SELECT id FROM datasets.objects WHERE state = 'live'")}
        assert live <= self.bucket.ids(), f"the bucket lacks {live - self.bucket.ids()}"
        for dataset, (n_segments, n_rows, n_objects) in counts.items():
            where = f"{n_segments} segments of {n_objects} objects"
            print(f"dataset {dataset}: {n_rows} rows are on S3, in {where}")
