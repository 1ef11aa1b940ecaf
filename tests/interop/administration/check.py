"""Administrates the database under services: TLS, roles, publications, passwords, dumps.

    check.py program folder-of-PostgreSQL's-programs port folder command-that-controls-the-server…
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys

from load import Load, stored
from processes import wait_until
from services import Services
from wire import call

USER, PASSWORD, NEW_PASSWORD = "triptych", "the first one", "the second one"
DATABASE, RESTORED = "rows", "restored"
N_DATASETS = 1
READERS_EACH = 5
WRITES_EVERY_S = 0.2
# A host name that the server's certificate contains, and a host name that it does not contain.
NAMED, UNNAMED = "localhost", "127.0.0.1"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Server:
    def __init__(self, programs, port, folder, control):
        self.programs, self.port, self.folder, self.control = pathlib.Path(programs), port, folder, control

    def query(self, sql, database=DATABASE):
        psql = [self.programs / "psql", "--no-psqlrc", "--csv", "--tuples-only", "--command", sql]
        return run(*psql, self.as_administrator(database)).strip()

    def as_administrator(self, database):
        return f"host={UNNAMED} port={self.port} user=postgres sslmode=disable dbname={database}"

    def url(self, host=NAMED, database=DATABASE):
        return f"postgres://{USER}@{host}:{self.port}/{database}"

    def require_tls(self):
        """Configures a certificate, and requires TLS and a password of the role."""
        data, owner = self.folder / "data", os.stat(self.folder / "data")
        make_authority(self.folder, "ca")
        make_authority(self.folder, "other")
        request = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAMED}"]
        run(*request, "-keyout", data / "server.key", "-out", self.folder / "server.csr")
        sign = ["openssl", "x509", "-req", "-in", self.folder / "server.csr", "-days", "2"]
        sign += ["-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key", "-CAcreateserial"]
        names = self.folder / "names"
        names.write_text(f"subjectAltName=DNS:{NAMED}\n")
        run(*sign, "-extfile", names, "-out", data / "server.crt")
        for name in ["server.key", "server.crt"]:
            os.chown(data / name, owner.st_uid, owner.st_gid)
            os.chmod(data / name, 0o600)
        (data / "pg_hba.conf").write_text(
            f"hostssl all {USER} all scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"
        )
        with open(data / "postgresql.conf", "a") as config:
            config.write("ssl = on\nlisten_addresses = '*'\n")
        run(*self.control, "restart")


def make_authority(folder, name):
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    run(*make, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")


def check_tls(server, program):
    """Checks that each TLS mode accepts and rejects connections as documented, with the reason."""
    authority, other = str(server.folder / "ca.crt"), str(server.folder / "other.crt")
    cases = [
        ({"PGSSLMODE": "disable"}, NAMED, ["no encryption"]),
        ({"PGSSLMODE": "prefer"}, UNNAMED, None),
        ({"PGSSLMODE": "require"}, UNNAMED, None),
        ({"PGSSLMODE": "verify-ca", "PGSSLROOTCERT": authority}, UNNAMED, None),
        ({"PGSSLMODE": "verify-full", "PGSSLROOTCERT": authority}, NAMED, None),
        ({"PGSSLMODE": "verify-full", "PGSSLROOTCERT": authority}, UNNAMED, ["certificate"]),
        ({"PGSSLMODE": "verify-ca", "PGSSLROOTCERT": other}, NAMED, ["certificate"]),
        ({"PGSSLMODE": "require", "PGPASSWORD": "wrong"}, NAMED, ["password"]),
    ]
    for environment, host, wanted in cases:
        command = [program, "keys", "list", "--database", server.url(host)]
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
        said = f"{environment} at {host}: {done.returncode} {done.stderr}"
        assert (done.returncode == 0) == (wanted is None), said
        assert all(part in done.stderr for part in wanted or []), said
        print(f"{environment['PGSSLMODE']} at {host}: {'rejected' if wanted else 'accepted'}")


async def check_new_password(server, services, password_file):
    """Checks that services use a new password without a restart."""
    server.query(f"ALTER ROLE {USER} PASSWORD '{NEW_PASSWORD}'")
    password_file.write_text(f"*:*:*:{USER}:{NEW_PASSWORD}\n")
    end = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{USER}'"
    print(f"{server.query(end)} connections end, and the role has another password")
    await wait_until(services.are_healthy, "all services use the new password")


async def check_publication(server, services):
    """Checks that services work with a publication of all tables, which requires primary keys."""
    server.query("CREATE PUBLICATION everything FOR ALL TABLES", DATABASE)
    body = {"name": "short", "columns": [{"name": "value", "dtype": "float"}]}
    status, text = await call(services.port, services.key, "POST", "/api/datasets/", body)
    assert status == 201, (status, text)
    status, text = await call(
        services.port, services.key, "DELETE", f"/api/datasets/{json.loads(text)['id']}/"
    )
    assert status in (200, 204), (status, text)


async def check_restored(server, program, home, load, dumped):
    """Checks that a restored database has a consistent state of the original."""
    before, after = dumped
    services = Services(home)
    try:
        services.serve(program, server.url(database=RESTORED))
        await wait_until(services.are_healthy, "services on the restored database respond")
        for dataset in load.datasets:
            # The dump contains the key, so the key can read its datasets.
            services.key = load.services.key
            values = set((await stored(services, dataset)).values())
            assert before[dataset] <= values <= after[dataset], f"dataset {dataset}: {len(values)} rows"
            path = f"/api/rows/?dataset={dataset}&resolution=1d&start=2023-01-01T00:00:00Z"
            status, text = await call(services.port, services.key, "GET", f"{path}&end=2024-12-31T00:00:00Z")
            assert status == 200, (status, text)
            counted = sum(bucket["count"] for bucket in json.loads(text)["results"])
            assert counted == len(values), f"{counted} rows in buckets, {len(values)} rows"
            print(f"restored dataset {dataset}: {len(values)} rows, as many in its buckets")
    except BaseException:
        services.print_logs()
        raise
    finally:
        services.end()


def acknowledged(load):
    of_dataset = lambda dataset: [writer for writer in load.writers if writer.dataset == dataset]
    return {d: {s for w in of_dataset(d) for s in w.acknowledged} for d in load.datasets}


async def check(server, program, services, home, password_file):
    load = await Load.start(services, WRITES_EVERY_S, N_DATASETS, READERS_EACH)
    await load.wait_for_batches()
    await check_publication(server, services)
    await load.wait_for_batches()
    await check_new_password(server, services, password_file)
    await load.wait_for_batches()
    before = acknowledged(load)
    dump = home / "dump"
    command = [server.programs / "pg_dump", "--format", "custom", "--file", dump]
    dumping = asyncio.to_thread(run, *command, server.as_administrator(DATABASE))
    await asyncio.gather(dumping, load.wait_for_batches())
    await load.end()
    server.query(f"CREATE DATABASE {RESTORED} OWNER {USER} ENCODING UTF8 TEMPLATE template0", "postgres")
    restore = [server.programs / "pg_restore", "--exit-on-error", dump]
    run(*restore, "--dbname", server.as_administrator(RESTORED))
    restored = home / "restored"
    restored.mkdir()
    await check_restored(server, program, restored, load, (before, acknowledged(load)))


def main():
    program, programs, port, folder, *control = sys.argv[1:]
    folder = pathlib.Path(folder)
    server = Server(programs, port, folder, control)
    server.query(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'", "postgres")
    server.query(f"CREATE DATABASE {DATABASE} OWNER {USER} ENCODING UTF8 TEMPLATE template0", "postgres")
    server.require_tls()
    home = folder / "services"
    home.mkdir()
    password_file = home / "pgpass"
    password_file.write_text(f"*:*:*:{USER}:{PASSWORD}\n")
    password_file.chmod(0o600)
    os.environ["PGPASSFILE"] = str(password_file)
    check_tls(server, program)
    os.environ |= {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(folder / "ca.crt")}
    services = Services(home)
    try:
        services.serve(program, server.url())
        asyncio.run(check(server, program, services, home, password_file))
    except BaseException:
        services.print_logs()
        raise
    finally:
        services.end()


main()
