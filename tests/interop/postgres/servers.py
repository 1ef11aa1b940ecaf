"""PostgreSQL servers in folders of their own, which tests start and stop."""

import pathlib
import subprocess

# What a new server is made with.
INIT = ["--auth", "trust", "--username", "postgres", "--encoding", "UTF8", "--no-locale", "--no-sync"]
SETTINGS = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"]


class Server:
    """A PostgreSQL server in a folder."""

    def __init__(self, programs, folder, port, as_user):
        self.programs, self.folder, self.port, self.as_user = programs, folder, port, as_user

    def run(self, program, *arguments):
        command = [*self.as_user, f"{self.programs}/{program}", *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, f"{program}: {done.stderr}"

    def control(self, *arguments):
        self.run("pg_ctl", "--pgdata", self.folder, "--wait", "--log", f"{self.folder}.log", *arguments)

    def another(self, folder, port):
        """Makes and starts an empty server of the same version."""
        server = Server(self.programs, folder, port, self.as_user)
        server.run("initdb", "--pgdata", folder, *INIT)
        server.start()
        return server

    def start(self):
        settings = " ".join(f"-c {setting}" for setting in [*SETTINGS, f"port={self.port}"])
        self.control("start", "--options", settings)

    def lose(self):
        """Ends it as a crash does."""
        self.control("stop", "--mode", "immediate")

    def standby(self, folder, port):
        """Starts another server that follows this one."""
        if pathlib.Path(self.programs, "pg_basebackup").exists():
            self.back_up(folder)
        else:
            self.copy(folder)
        standby = Server(self.programs, folder, port, self.as_user)
        standby.control("start", "--options", f"-c port={port}")
        return standby

    def back_up(self, folder):
        self.run(
            "pg_basebackup", "--pgdata", folder, "--write-recovery-conf", "--checkpoint", "fast",
            "--no-sync", "--host", "127.0.0.1", "--port", str(self.port), "--username", "postgres",
        )

    def copy(self, folder):
        """Copies the data of a server that comes without the program for it."""
        self.control("stop", "--mode", "fast")
        subprocess.run([*self.as_user, "cp", "-a", self.folder, folder], check=True)
        subprocess.run([*self.as_user, "touch", f"{folder}/standby.signal"], check=True)
        with open(f"{folder}/postgresql.conf", "a") as config:
            config.write(f"primary_conninfo = 'host=127.0.0.1 port={self.port} user=postgres'\n")
        self.control("start")

    def query(self, database, sql):
        command = [f"{self.programs}/psql", "--no-psqlrc", "--csv", "--tuples-only", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--username", "postgres", "--command", sql, database]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
