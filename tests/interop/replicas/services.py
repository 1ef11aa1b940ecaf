"""Dataset services on one database and their load balancer."""

import pathlib
import sys

from processes import Process, create_key, free_port
from wire import call

N_REPLICAS = 3
# Number of last bytes of a log that are printed after a failure.
LOG_BYTES = 3000


class Services:
    """The services and the balancer. `balanced` is an additional configuration of the balancer."""

    def __init__(self, home, balanced=()):
        self.home, self.port = home, free_port()
        self.ports = [free_port() for _ in range(N_REPLICAS)]
        config = pathlib.Path(home) / "haproxy.cfg"
        config.write_text("\n".join([*self.balancer_config(), *balanced, ""]))
        self.balancer = Process("haproxy", ["haproxy", "-db", "-f", str(config)], home)
        self.replicas = []

    def serve(self, program, database):
        """Creates a key and starts the services."""
        self.key = create_key(program, database)
        serve = [program, "datasets", "serve", "--store", database, "--raw-range-cap", "0"]
        for n, port in enumerate(self.ports):
            place = ["--listen", f"127.0.0.1:{port}", "--data-dir", f"{self.home}/replica{n}"]
            command = [*serve, *place, "--unlimited-loopback"]
            self.replicas.append(Process(f"replica{n}", command, self.home))
        # A further service, which has a quota.
        self.limited_port = free_port()
        place = ["--listen", f"127.0.0.1:{self.limited_port}", "--data-dir", f"{self.home}/limited"]
        self.replicas.append(Process("limited", [*serve, *place], self.home))

    def balancer_config(self):
        lines = [
            "global", " maxconn 4000", "defaults", " mode http", " timeout connect 2s",
            " timeout client 90s", " timeout server 90s", " option redispatch",
            " timeout http-request 10s", " option http-buffer-request", " option http-no-delay",
            "listen replicas",
            f" bind 127.0.0.1:{self.port}", " balance leastconn", " option httpchk GET /health",
            " default-server check inter 500ms fall 2 rise 1",
        ]
        return lines + [f" server replica{n} 127.0.0.1:{port}" for n, port in enumerate(self.ports)]

    async def are_healthy(self):
        answers = [await call(port, self.key, "GET", "/health") for port in [*self.ports, self.port]]
        return all(status == 200 for status, _ in answers)

    def print_logs(self, others=()):
        for process in [*self.replicas, self.balancer, *others]:
            print(f"== {process.name}\n{process.log.read_text()[-LOG_BYTES:]}", file=sys.stderr)

    def end(self):
        for process in [self.balancer, *self.replicas]:
            process.kill()
