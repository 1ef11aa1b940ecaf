"""PostgreSQL servers under Patroni with etcd: a leader and a synchronous copy."""

import asyncio
import json
import os
import pathlib
import signal

from processes import Process, free_port, wait_until
from wire import send

N_NODES = 3
# Time without a leader after which another leader is elected.
LEASE_S = 8
RESPONDS_WITHIN_S = 2
# Maximum time until a former leader works again. Its data may have to be copied again.
WHOLE_WITHIN_S = 90
SETTINGS = {
    "ttl": LEASE_S,
    "loop_wait": 1,
    "retry_timeout": 3,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "failsafe_mode": True,
    "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 200}},
}


def kill(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


async def wait_for(find, what):
    """Waits until `find` returns something, and returns it."""
    found = None

    async def is_found():
        nonlocal found
        found = await find()
        return found is not None

    await wait_until(is_found, what, WHOLE_WITHIN_S)
    return found


class Node:
    """A server and its Patroni."""

    def __init__(self, name, etcd_port, home, bin):
        self.name, self.folder, self.bin = name, pathlib.Path(home) / name, bin
        self.port, self.rest_port = free_port(), free_port()
        address, rest = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.rest_port}"
        config = {
            "scope": "rows",
            "name": name,
            "restapi": {"listen": rest, "connect_address": rest},
            # With `etcd3`, a leader that resumes takes its lease back from its successor before Patroni
            # 3.0.3.
            "etcd": {"host": f"127.0.0.1:{etcd_port}"},
            "bootstrap": {"dcs": SETTINGS, "initdb": [{"encoding": "UTF8"}, "no-locale"]},
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(self.folder),
                "bin_dir": bin,
                "pgpass": f"{self.folder}.pgpass",
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                },
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": [f"host {what} all 127.0.0.1/32 trust" for what in ["all", "replication"]],
            },
        }
        # Written as JSON, which is valid YAML.
        path = pathlib.Path(home) / f"{name}.yml"
        path.write_text(json.dumps(config))
        user = "postgres" if os.geteuid() == 0 else None
        self.patroni = Process(f"patroni-{name}", ["patroni", str(path)], home, user)

    def postgres(self):
        """Returns the processes of the server, the parent first."""
        try:
            pid = int((self.folder / "postmaster.pid").read_text().splitlines()[0])
            return [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        except (FileNotFoundError, IndexError):
            return []

    def kill_all(self):
        self.patroni.kill()
        kill(self.postgres(), signal.SIGKILL)

    async def has_role(self, role):
        """Returns True if Patroni reports this role, as it does to the balancer."""
        try:
            within = asyncio.timeout(RESPONDS_WITHIN_S)
            async with within:
                response = await send(self.rest_port, "", "GET", f"/{role}")
                response.writer.close()
                return response.status == 200
        except (OSError, ValueError, asyncio.TimeoutError):
            return False

    def psql(self, sql, database="postgres"):
        url = f"postgres://postgres@127.0.0.1:{self.port}/{database}"
        return [f"{self.bin}/psql", "--no-psqlrc", "--csv", "--tuples-only", "--command", sql, url]

    async def query(self, sql, database="postgres"):
        """Returns the result of a query, or None if the server does not respond."""
        quiet = asyncio.subprocess.DEVNULL
        command = self.psql(sql, database)
        psql = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=quiet)
        told, _ = await psql.communicate()
        return told.decode().strip() if psql.returncode == 0 else None


class Cluster:
    """The servers and their etcd."""

    def __init__(self, home, bin):
        client, peer, self.port = free_port(), free_port(), free_port()
        urls = [f"http://127.0.0.1:{port}" for port in (client, peer)]
        etcd = ["etcd", "--enable-v2", "--data-dir", f"{home}/etcd", "--initial-cluster", f"default={urls[1]}"]
        for flag, url in [("client-urls", urls[0]), ("peer-urls", urls[1])]:
            etcd += [f"--listen-{flag}", url]
        etcd += ["--advertise-client-urls", urls[0], "--initial-advertise-peer-urls", urls[1]]
        self.etcd = Process("etcd", etcd, home)
        self.nodes = [Node(f"pg{n}", client, home, bin) for n in range(N_NODES)]

    def balancer_config(self):
        """Returns the balancer's configuration, which connects to the leader and cuts off former leaders."""
        lines = [
            "listen postgres", f" bind 127.0.0.1:{self.port}", " mode tcp", " timeout client 30m",
            " timeout server 30m", " timeout check 1s", " option httpchk GET /primary",
            " default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions",
        ]
        for node in self.nodes:
            lines.append(f" server {node.name} 127.0.0.1:{node.port} check port {node.rest_port}")
        return lines

    async def leader(self):
        """Returns the leader, or None."""
        are_leaders = await asyncio.gather(*(node.has_role("primary") for node in self.nodes))
        return next((node for node, is_one in zip(self.nodes, are_leaders) if is_one), None)

    async def wait_for_leader(self, old=None):
        """Waits for a leader other than `old`."""

        async def find():
            leader = await self.leader()
            return leader if leader is not old else None

        return await wait_for(find, "another server leads" if old else "a server leads")

    async def copy(self):
        """Returns the synchronous copy."""
        are_copies = await asyncio.gather(*(node.has_role("synchronous") for node in self.nodes))
        return next((node for node, is_one in zip(self.nodes, are_copies) if is_one), None)

    async def wait_for_copy(self):
        return await wait_for(self.copy, "a server is a copy of the leader")

    async def is_whole(self):
        """Returns True if all servers run and know the synchronous copy. Until then no other server can become
        the leader."""
        leader = await self.copy() and await self.leader()
        sql = "SELECT count(*), count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication"
        sql += " WHERE state = 'streaming'"
        return leader and await leader.query(sql) == f"{N_NODES - 1},1"

    async def wait_until_whole(self):
        await wait_until(self.is_whole, "all servers of the database are back", WHOLE_WITHIN_S)

    def processes(self):
        return [self.etcd, *(node.patroni for node in self.nodes)]

    def end(self):
        for node in self.nodes:
            node.kill_all()
        self.etcd.kill()
