"""A throw-away PostgreSQL server for tests: loopback only, a port of its own, an empty data directory.

PostgreSQL refuses to run as root, so root starts it as the user `postgres`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

_MISSING = "needs postgresql: apt-get install postgresql"


def missing_postgresql() -> str | None:
    """Why there can be no server here, or None."""
    return None if _programs() else _MISSING


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URL of a running server, without a database name."""
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
        with _server(programs / "postgres", data, user) as port:
            yield f"postgresql://postgres@127.0.0.1:{port}"
    finally:
        shutil.rmtree(folder)


def create_database(server: str, name: str) -> str:
    """Make an empty database and give its URL."""
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return f"{server}/{name}"


@contextmanager
def _server(program: Path, data: Path, user: str | None) -> Iterator[int]:
    port = _free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
    options = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    with (data.parent / "log").open("wb") as log:
        command = [str(program), "-D", str(data), *options]
        process = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=data.parent)
    try:
        _wait_until_it_answers(process, port, data.parent / "log")
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    while process.poll() is None:
        with suppress(psycopg.OperationalError):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=5).close()
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    raise AssertionError(f"PostgreSQL ended: {log.read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _programs() -> Path | None:
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(found) if (folder / "initdb").exists()), None)
