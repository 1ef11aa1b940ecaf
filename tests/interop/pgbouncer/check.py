"""Runs services through PgBouncer in both modes, kills it under load, and checks that every acknowledged row is
stored, and is streamed to every reader once and in order.

    check.py program port-of-PostgreSQL folder
"""

import asyncio
import os
import pathlib
import sys
import time

from load import Load
from processes import Process, free_port, wait_until
from services import Services

N_DATASETS = 2
READERS_EACH = 10
WRITES_EVERY_S = 0.2
# Maximum number of connections to PostgreSQL, by mode. In session mode, a service keeps its connections.
# In transaction mode, all services share fewer connections than a single service opens.
POOL_SIZES = {"session": 180, "transaction": 12}
USER = "triptych"


def start_pgbouncer(mode, postgres_port, home):
    """Starts PgBouncer with the settings of the guide. Returns process and port."""
    port = free_port()
    users = home / "users.txt"
    users.write_text(f'"{USER}" ""\n')
    config = home / f"{mode}.ini"
    lines = [
        "[databases]", f"* = host=127.0.0.1 port={postgres_port}", "[pgbouncer]", "listen_addr = 127.0.0.1",
        f"listen_port = {port}", "unix_socket_dir =", "auth_type = trust", f"auth_file = {users}",
        f"pool_mode = {mode}", "ignore_startup_parameters = extra_float_digits", "max_client_conn = 400",
        f"default_pool_size = {POOL_SIZES[mode]}", "server_login_retry = 1",
    ]
    config.write_text("\n".join([*lines, ""]))
    # PgBouncer refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    return Process(f"pgbouncer-{mode}", ["pgbouncer", str(config)], home, user), port


async def check(services, pgbouncer):
    load = await Load.start(services, WRITES_EVERY_S, N_DATASETS, READERS_EACH)
    await load.wait_for_batches()
    began = time.monotonic()
    pgbouncer.kill()
    await asyncio.sleep(1)
    pgbouncer.start()
    await wait_until(services.are_healthy, "all services are healthy again")
    took = time.monotonic() - began
    await load.wait_for_batches()
    print(f"killed pgbouncer, healthy after {took:.1f} s: {load.losses()}", flush=True)
    await load.end()


def check_mode(mode, program, postgres_port, folder):
    print(f"== {mode} mode", flush=True)
    home = folder / f"{mode}-mode"
    home.mkdir()
    home.chmod(0o755)
    pgbouncer, port = start_pgbouncer(mode, postgres_port, home)
    services = Services(home)
    try:
        asyncio.run(wait_until(lambda: is_open(port), "PgBouncer listens"))
        services.serve(program, f"postgres://{USER}@127.0.0.1:{port}/{mode}")
        asyncio.run(check(services, pgbouncer))
    except BaseException:
        services.print_logs([pgbouncer])
        raise
    finally:
        services.end()
        pgbouncer.kill()


async def is_open(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def main():
    program, postgres_port, folder = sys.argv[1:]
    for mode in POOL_SIZES:
        check_mode(mode, program, postgres_port, pathlib.Path(folder))


main()
