"""A throw-away PostgreSQL server for tests, and a PgBouncer before it: loopback only, ports of their own, an empty data
directory.

Both refuse to run as root, so root starts them as the user `postgres`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.ports import free_port

_MISSING = "needs postgresql: apt-get install postgresql"


def missing_postgresql() -> str | None:
    """Why there can be no server here, or None."""
    return None if _programs() else _MISSING


class Server:
    """A running server: its URL without a database name, and a hand that pulls its plug."""

    def __init__(self, url: str, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self.url = url
        self._start = start
        self.process = start()

    def stop_immediately(self) -> None:
        """Every connection breaks, and it does not come back."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=60)

    def restart_immediately(self) -> None:
        """What `pg_ctl restart -m immediate` does: every connection breaks, what was committed is recovered."""
        self.stop_immediately()
        self.process = self._start()


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URL of a running server, without a database name."""
    with running_server() as server:
        yield server.url


@contextmanager
def running_server() -> Iterator[Server]:
    """A running server."""
    programs = _programs()
    assert programs is not None, _MISSING
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="tenantry-postgresql-"))
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    initdb = [
        str(programs / "initdb"),
        "--pgdata",
        str(data),
        "--auth=trust",
        "--username=postgres",
        "--no-sync",
        "-E",
        "UTF8",
    ]
    try:
        subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
        with _server(programs / "postgres", data, user) as server:
            yield server
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_standby(primary: Server) -> Iterator[Server]:
    """A second server that has every commit of the primary before the primary acknowledges it (synchronous
    replication), until `SELECT pg_promote()` makes it one of its own."""
    programs = _programs()
    assert programs is not None, _MISSING
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="tenantry-standby-"))
    if user is not None:
        shutil.chown(folder, user)
    data, source = folder / "data", f"{primary.url}/postgres"
    copy = [str(programs / "pg_basebackup"), "-d", source, "-D", str(data), "-R", "-X", "stream", "--no-sync"]
    try:
        subprocess.run([*copy, "-c", "fast"], check=True, capture_output=True, user=user, cwd=folder)
        with _server(programs / "postgres", data, user) as standby, psycopg.connect(source, autocommit=True) as asked:
            asked.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            asked.execute("SELECT pg_reload_conf()")
            while asked.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone() is None:
                time.sleep(0.05)
            asked.close()
            yield standby
    finally:
        shutil.rmtree(folder)


def missing_pgbouncer() -> str | None:
    """Why there can be no pooler here, or None."""
    return None if _pgbouncer() else "needs pgbouncer: apt-get install pgbouncer"


@contextmanager
def running_pgbouncer(server: str, *, connections: int) -> Iterator[str]:
    """The URL of a pooler in transaction mode before a server, with so few connections that sessions are shared."""
    program = _pgbouncer()
    assert program is not None
    user = "postgres" if os.geteuid() == 0 else None
    folder, port = Path(tempfile.mkdtemp(prefix="tenantry-pgbouncer-")), free_port()
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "settings").write_text(
        f"""[databases]
* = host=127.0.0.1 port={server.rpartition(":")[2]} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {connections}
ignore_startup_parameters = extra_float_digits
"""
    )
    if user is not None:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(folder / "settings")], stdout=log, stderr=log, user=user, cwd=folder, env={}
        )
    try:
        _wait_until_it_answers(process, port, folder / "log")
        yield f"postgresql://postgres@127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        shutil.rmtree(folder)


def create_database(server: str, name: str, *, template: str = "template1") -> str:
    """Make a database as the template is and give its URL."""
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        # The quicker way for small ones; before PostgreSQL 15 it is the only one.
        strategy = "STRATEGY file_copy" if connection.info.server_version >= 150_000 else ""
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {strategy}'.encode())
    return f"{server}/{name}"


def drop_database(server: str, name: str) -> None:
    """Remove a database, whoever is still connected to it."""
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def _server(program: Path, data: Path, user: str | None) -> Iterator[Server]:
    port = free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
        "full_page_writes": "off",
        "autovacuum": "off",
    }
    options = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    command, log = [str(program), "-D", str(data), *options], data.parent / "log"

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as lines:
            return subprocess.Popen(command, stdout=lines, stderr=lines, user=user, cwd=data.parent)

    server = Server(f"postgresql://postgres@127.0.0.1:{port}", start)
    try:
        _wait_until_it_answers(server.process, port, log)
        yield server
    finally:
        server.process.send_signal(signal.SIGINT)
        server.process.wait(timeout=60)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    while process.poll() is None:
        with suppress(psycopg.OperationalError):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=5).close()
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    raise AssertionError(f"PostgreSQL ended: {log.read_text()}")


def _pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _programs() -> Path | None:
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(found) if (folder / "initdb").exists()), None)
