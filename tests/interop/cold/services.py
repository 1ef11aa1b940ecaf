"""Services that are killed and started again, with what their database says."""

import json
import subprocess
import time
import urllib.error
import urllib.request

from processes import Process, create_key, free_port

WITHIN_S = 90
# Longer than two rounds of sealing are apart.
QUIET_S = 15


def wait_until(is_so, what):
    end = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.05)


class Lock:
    """Keeps others from locking a dataset, from when it is asked to until its end."""

    def __init__(self, command, sql):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.process.stdin.write(f"BEGIN;\n{sql};\n\\echo locked\n")
        self.process.stdin.flush()
        while self.process.stdout.readline().strip() != "locked":
            assert self.process.poll() is None, "psql ended"

    def end(self):
        self.process.kill()
        self.process.wait()


class Service(Process):
    """The program serving datasets out of a database."""

    def __init__(self, program, database, home, name, psql, options):
        self.key, self.database = create_key(program, database), database
        self.psql = [psql, "--quiet", "--no-psqlrc", "--tuples-only", "--no-align", database]
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        serve = [program, "datasets", "serve", "--unlimited-loopback", "--raw-range-cap", "0"]
        serve += ["--store", database, "--listen", f"127.0.0.1:{port}", "--data-dir", f"{home}/{name}"]
        super().__init__(name, [*serve, *options], home)

    def start(self):
        super().start()
        wait_until(lambda: self.call("GET", "/health")[0] == 200, f"{self.name} responds")

    def restart(self, *options):
        self.kill()
        self.command += options
        self.start()

    def send(self, method, path, body=None, headers=()):
        request = urllib.request.Request(self.url + path, method=method, headers=dict(headers))
        request.add_header("X-API-Key", self.key)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        return urllib.request.urlopen(request, timeout=WITHIN_S)

    def call(self, method, path, body=None):
        """The status, headers and bytes of the response, as text; status 0 if there is none."""
        try:
            with self.send(method, path, body) as answer:
                return answer.status, answer.headers, answer.read().decode("latin-1")
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode("latin-1")
        except (OSError, urllib.error.URLError) as error:
            return 0, {}, repr(error)

    def done(self, method, path, body=None):
        status, _, text = self.call(method, path, body)
        assert status in (200, 201), f"{self.name} {method} {path}: {status} {text[:500]}"
        return json.loads(text)

    def stream(self, dataset, last_id):
        """The events of a stream: the kind, the id and the data of each."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        event = {}
        with self.send("GET", f"/api/rows/stream/?dataset={dataset}", headers=headers) as stream:
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif event:
                    yield event.get("event"), event.get("id"), event.get("data")
                    event = {}

    def metric(self, name):
        text = self.call("GET", "/metrics")[2]
        start = f"triptych_datasets_{name} "
        return next(float(line[len(start) :]) for line in text.splitlines() if line.startswith(start))

    def sql(self, sql):
        command = [*self.psql, "--command", sql]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def count(self, sql):
        return int(self.sql(f"SELECT count(*) FROM datasets.{sql}")[0])

    def lock(self, dataset):
        return Lock(self.psql, f"SELECT FROM datasets.head WHERE dataset = {dataset} FOR UPDATE")

    def wait_until_quiet(self):
        """Waits until rounds of sealing, which are seconds apart, have written nothing."""
        seen, since = None, time.monotonic()

        def is_quiet():
            nonlocal seen, since
            if (n_objects := self.count("objects")) != seen:
                seen, since = n_objects, time.monotonic()
            return time.monotonic() - since > QUIET_S

        wait_until(is_quiet, "nothing is left to seal")

    def hold_staging(self):
        return Lock(self.psql, "LOCK TABLE datasets.objects IN SHARE MODE")

    def is_staging(self):
        """Whether an object is about to be put on record, and waits for a lock."""
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        sql += " AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO objects%'"
        return self.sql(sql) != ["0"]

    def live_objects(self):
        """The objects that rows are in; none while others are on record."""
        states = self.sql("SELECT id || ' ' || state FROM datasets.objects")
        ids, states = states[::2], states[1::2]
        return set(ids) if set(states) <= {"live"} else None

    def age(self):
        """Has the objects that no rows are in be as old as if weeks had passed."""
        weeks = 30 * 24 * 3600 * 1_000_000
        self.sql(f"UPDATE datasets.objects SET at = at - {weeks} WHERE state <> 'live'")

    def n_hot_max(self, dataset):
        """The most chunks of rows of a dataset that are in the database."""
        return self.count(f"chunks WHERE dataset = {dataset} AND resolution = 0")

    def wait_until_sealed(self, datasets, n_chunks_max):
        for dataset in datasets:
            is_sealed = lambda: self.n_hot_max(dataset) <= n_chunks_max
            wait_until(is_sealed, f"old rows of dataset {dataset} are on S3")
